package keeper

import (
	"sync/atomic"
	"time"
)

// grain is the shortest time asleep that counts. The time asleep is the difference of two system
// clocks that cannot be read at one instant, so a reading is too long by the pause between the two
// reads. No machine sleeps for less than grain, and every margin is longer.
const grain = 5 * time.Millisecond

// A Clock counts the time since it was made, also while the machine was suspended. On Linux, Go's
// monotonic clock stands still during a suspend. A store's clock does not.
//
// Two system calls read the time asleep. The clock makes them only if the time of day has moved
// against the monotonic clock. That happens whenever the kernel wakes up from a suspend, and
// when the time of day is set. The time of day itself does not count.
//
// On other systems than Linux the time asleep is not counted. Inside a testing/synctest bubble
// both clocks are virtual and never move against each other.
type Clock struct {
	base   time.Time
	asleep func() time.Duration              // the machine's total time asleep, or a little more
	moved  func(now time.Time) time.Duration // by how much the time of day moved since base

	first time.Duration // the time asleep when the clock was made
	slept atomic.Int64  // the time asleep since then
	seen  atomic.Int64  // the result of moved when slept was read
}

// NewClock returns a clock that reads zero now.
func NewClock() *Clock {
	c := &Clock{base: time.Now(), asleep: asleep}
	c.moved = func(now time.Time) time.Duration {
		return now.Round(0).Sub(c.base.Round(0)) - now.Sub(c.base) // Round removes the monotonic reading
	}
	c.first = c.read()
	return c
}

// Now returns the time.
func (c *Clock) Now() time.Duration {
	now := time.Now()
	moved := c.moved(now)
	if d := moved - time.Duration(c.seen.Load()); d > grain/2 || d < -grain/2 {
		if slept := c.read() - c.first; slept > time.Duration(c.slept.Load())+grain {
			c.slept.Store(int64(slept))
		}
		c.seen.Store(int64(moved)) // last: a reader of seen then also has slept
	}
	return now.Sub(c.base) + time.Duration(c.slept.Load())
}

// Slept returns the time asleep that Now has counted so far.
func (c *Clock) Slept() time.Duration { return time.Duration(c.slept.Load()) }

// Awake returns the time without the time asleep, for durations on which no trust depends.
func (c *Clock) Awake() time.Duration { return time.Since(c.base) }

// read returns the total time asleep. A reading is too long if the thread was stopped in the middle
// of it, so read takes the shortest of several.
func (c *Clock) read() time.Duration {
	least := c.asleep()
	for range 4 {
		least = min(least, c.asleep())
	}
	return least
}
