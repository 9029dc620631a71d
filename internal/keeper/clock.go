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
// On other systems than Linux the time asleep is not counted. Inside a testing/synctest bubble
// time.Now is virtual and the time asleep does not change.
type Clock struct {
	base   time.Time
	asleep func() time.Duration // how long the machine has been asleep in all, or a little more
	slept  atomic.Int64         // what of that is believed
	first  time.Duration        // what it was when the clock was made
}

// NewClock returns a clock that reads zero now.
func NewClock() *Clock { return newClock(asleep) }

func newClock(asleep func() time.Duration) *Clock {
	c := &Clock{base: time.Now(), asleep: asleep}
	c.first = c.read()
	return c
}

// Now returns the time.
func (c *Clock) Now() time.Duration {
	slept := time.Duration(c.slept.Load())
	if c.asleep()-c.first > slept+grain {
		if now := c.read() - c.first; now > slept+grain {
			slept = now
			c.slept.Store(int64(now))
		}
	}
	return time.Since(c.base) + slept
}

// Awake returns the time without that asleep: cheap, for durations that no trust depends on.
func (c *Clock) Awake() time.Duration { return time.Since(c.base) }

// read returns the time asleep in all. Each reading is too long if the thread was stopped
// in the middle of it; the shortest of several is not.
func (c *Clock) read() time.Duration {
	least := c.asleep()
	for range 4 {
		least = min(least, c.asleep())
	}
	return least
}
