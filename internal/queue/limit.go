package queue

import (
	"context"
	"time"
)

// limitSlack is how much less than CallLimit a call may get, so that calls of about the same time
// share one limit.
const limitSlack = 500 * time.Millisecond

// A sharedLimit is a context that ends after CallLimit, or a little earlier. A context and a timer
// for every call would be half of the cost of a lock.
type sharedLimit struct {
	context.Context
	last time.Time // until when new calls use it
}

// Call returns a context for one call of the store. It ends with ctx, and after limit.
func (m *Manager) Call(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit < CallLimit || ctx.Done() != nil {
		return context.WithTimeout(ctx, limit)
	}
	return m.lastCall(ctx, limit, new(limited))
}

// lastCall returns a context for a call that is made although ctx has ended. It ends after limit.
// It may be made in mem.
func (m *Manager) lastCall(ctx context.Context, limit time.Duration, mem *limited) (context.Context, context.CancelFunc) {
	if limit < CallLimit {
		return context.WithTimeout(context.WithoutCancel(ctx), limit)
	}
	mem.Context, mem.values = m.limit(), ctx
	return mem, func() {}
}

// limit returns the limit of calls that begin now.
func (m *Manager) limit() context.Context {
	now := time.Now()
	if s := m.limits.Load(); s != nil && now.Before(s.last) {
		return s
	}
	s := &sharedLimit{last: now.Add(limitSlack)}
	var cancel context.CancelFunc
	//nolint:gosec // it is never called: the deadline ends it
	s.Context, cancel = context.WithDeadline(context.Background(), now.Add(CallLimit))
	_ = cancel        // calls that began before the next limit may use this one to its end
	m.limits.Store(s) // two calls may both store one: the surplus one ends by itself too
	return s
}

// limited is a context with the end of one context and the values of another.
type limited struct {
	context.Context
	values context.Context
}

// Value finds what the caller's context carries, a span for instance. The keys of package context
// itself are those of the limit.
func (c *limited) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
