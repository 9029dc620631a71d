package keeper

import (
	"sync/atomic"
	"time"
)

// grain is the shortest time asleep that is believed. The time asleep is the difference of two
// system clocks that cannot be read at one instant, so a reading is too long by the pause between
// them. No machine sleeps for less than this, and no margin is as short.
const grain = 5 * time.Millisecond

// A Clock counts the time that has passed since it was made, for every clock on earth: also while
// the machine was suspended. Go's own monotonic clock stands still then on Linux, and a store's
// clock does not.
//
// The time asleep takes two system calls to read. It is read only if the time of day has
// moved against the monotonic clock, as it does whenever the kernel wakes up from a suspend, and
// sometimes when it is set by hand. The time of day itself counts for nothing.
//
// On other systems than Linux the time asleep is not counted. Inside a testing/synctest bubble
// both clocks are virtual and never move against each other.
type Clock struct {
	base   time.Time
	asleep func() time.Duration              // how long the machine has been asleep in all, or a little more
	moved  func(now time.Time) time.Duration // by how much the time of day moved since base

	first time.Duration // the time asleep when the clock was made
	slept atomic.Int64  // what has been added to it since
	seen  atomic.Int64  // what moved was when that was read
}

// NewClock returns a clock that reads zero now.
func NewClock() *Clock {
	c := &Clock{base: time.Now(), asleep: asleep}
	c.moved = func(now time.Time) time.Duration {
		return now.Round(0).Sub(c.base.Round(0)) - now.Sub(c.base) // Round takes the monotonic reading out
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
		c.seen.Store(int64(moved)) // last: whoever sees it sees slept too
	}
	return now.Sub(c.base) + time.Duration(c.slept.Load())
}

// Slept returns the time asleep that Now has counted so far.
func (c *Clock) Slept() time.Duration { return time.Duration(c.slept.Load()) }

// Awake returns the time without that asleep: for durations that no trust depends on.
func (c *Clock) Awake() time.Duration { return time.Since(c.base) }

// read returns the time asleep in all. A reading is too long if the thread was stopped in the
// middle of it; the shortest of several is not.
func (c *Clock) read() time.Duration {
	least := c.asleep()
	for range 4 {
		least = min(least, c.asleep())
	}
	return least
}
