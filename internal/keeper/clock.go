package keeper

import "time"

// A Clock counts the time that has passed since it was made, for every clock on earth: also while
// the machine was suspended. Go's own monotonic clock stands still then on Linux, and a store's
// clock does not.
//
// The time asleep is the difference of two system clocks that cannot be read at the same
// instant, so it is known up to the pause between the two readings. Before rounds it
// down and After rounds it up: trust that is counted from Before and compared with
// After is never too long.
//
// On other systems than Linux the time asleep is not counted. Inside a testing/synctest bubble
// time.Now is virtual and the time asleep does not change.
type Clock struct {
	base   time.Time
	asleep func(up bool) time.Duration // total time asleep, rounded down or up
}

// NewClock returns a clock that reads about zero now.
func NewClock() *Clock { return &Clock{base: time.Now(), asleep: asleep} }

// Now returns the time without that asleep: cheap, for durations that no trust depends on.
func (c *Clock) Now() time.Duration { return time.Since(c.base) }

// Before returns the time; what is done after the call happens no earlier.
func (c *Clock) Before() time.Duration { return c.asleep(false) + time.Since(c.base) }

// After returns the time; what was done before the call happened no later.
func (c *Clock) After() time.Duration { return time.Since(c.base) + c.asleep(true) }
