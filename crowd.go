package distlock

import "time"

const (
	// crowdTime is for how long after a refusal a key is taken for one that others want too.
	crowdTime = time.Second

	// maxCrowds bounds how many such keys are remembered. All are forgotten when there are more.
	maxCrowds = 1024
)

// crowds are the keys on which the store has lately refused a claim, and until when to remember that. Whoever waits for
// such a key asks with a place in line at once, and saves the ask that finds out that it needs one. To be wrong about it
// costs a little time and nothing else.
type crowds map[string]time.Duration

// note remembers a key.
func (c crowds) note(key string, now time.Duration) {
	if len(c) >= maxCrowds {
		clear(c)
	}
	c[key] = now + crowdTime
}

// has reports whether a key is remembered.
func (c crowds) has(key string, now time.Duration) bool {
	until, ok := c[key]
	if ok && now >= until {
		delete(c, key)
		return false
	}
	return ok
}
