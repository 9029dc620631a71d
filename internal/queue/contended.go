package queue

import "time"

const (
	// contendedTime is for how long after a refusal a key counts as contended.
	contendedTime = time.Second

	// maxContended bounds how many keys are remembered. All are forgotten when there are more.
	maxContended = 1024
)

// contended has the keys on which the store has lately refused a claim, and until when each is
// remembered. A call for such a key takes a queue entry with its first attempt, and saves the
// attempt that finds out that it needs one. A wrong guess costs a little time and nothing else.
type contended map[string]time.Duration

// note remembers a key.
func (c contended) note(key string, now time.Duration) {
	if len(c) >= maxContended {
		clear(c)
	}
	c[key] = now + contendedTime
}

// has reports whether a key is remembered.
func (c contended) has(key string, now time.Duration) bool {
	until, ok := c[key]
	if ok && now >= until {
		delete(c, key)
		return false
	}
	return ok
}
