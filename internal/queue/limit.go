package queue

import (
	"context"
	"sync"
	"time"
)

// lazyLimit is a context with a timeout. It has no timer, and its parent does not know of it, until
// a store waits for Done. A store that only reads the deadline, as a client of a connection does,
// needs neither: they take as long as the rest of a Lock without its two round trips.
type lazyLimit struct {
	context.Context // the parent
	ends            time.Time

	mu     sync.Mutex
	full   context.Context // the usual context with this deadline; nil: nobody waits
	cancel context.CancelFunc
	over   bool // the call has ended
}

func newLazyLimit(parent context.Context, limit time.Duration) *lazyLimit {
	c := &lazyLimit{Context: parent, ends: time.Now().Add(limit)}
	if d, ok := parent.Deadline(); ok && d.Before(c.ends) {
		c.ends = d
	}
	return c
}

// whole returns the usual context.
func (c *lazyLimit) whole() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full == nil {
		c.full, c.cancel = context.WithDeadline(c.Context, c.ends)
		if c.over {
			c.cancel()
		}
	}
	return c.full
}

// end ends the context.
func (c *lazyLimit) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}

// waited reports whether the usual context says more than the parent and the clock.
func (c *lazyLimit) waited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full != nil || c.over || !time.Now().Before(c.ends)
}

func (c *lazyLimit) Deadline() (time.Time, bool) { return c.ends, true }

func (c *lazyLimit) Done() <-chan struct{} { return c.whole().Done() }

func (c *lazyLimit) Err() error {
	if c.waited() {
		return c.whole().Err()
	}
	return c.Context.Err()
}

// Value also finds the context that package context looks for.
func (c *lazyLimit) Value(key any) any {
	if c.waited() {
		return c.whole().Value(key)
	}
	return c.Context.Value(key)
}
