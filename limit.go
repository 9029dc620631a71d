package distlock

import (
	"context"
	"time"
)

// limitSlack is how much less than callLimit a call may be given, so that calls of about the same
// time can share one limit.
const limitSlack = 500 * time.Millisecond

// A sharedLimit is a context that ends after callLimit, or a little earlier. A context and a timer for
// every call would be half of what a lock costs.
type sharedLimit struct {
	context.Context
	last time.Time // until when it serves new calls
}

// call returns a context for one call to the store. It ends with ctx, and after limit.
func (l *Locker) call(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit < callLimit || ctx.Done() != nil {
		return context.WithTimeout(ctx, limit)
	}
	return l.lastCall(ctx, limit, new(limited))
}

// lastCall returns a context for a call that goes out although ctx is over. It ends after limit. It may be made in room.
func (l *Locker) lastCall(ctx context.Context, limit time.Duration, room *limited) (context.Context, context.CancelFunc) {
	if limit < callLimit {
		return context.WithTimeout(context.WithoutCancel(ctx), limit)
	}
	room.Context, room.values = l.limit(), ctx
	return room, func() {}
}

// limit returns the limit of calls that begin now.
func (l *Locker) limit() context.Context {
	now := time.Now()
	if s := l.limits.Load(); s != nil && now.Before(s.last) {
		return s
	}
	s := &sharedLimit{last: now.Add(limitSlack)}
	var cancel context.CancelFunc
	//nolint:gosec // it is never called: the deadline ends it
	s.Context, cancel = context.WithDeadline(context.Background(), now.Add(callLimit))
	_ = cancel        // calls that began before the next one may use it to its end
	l.limits.Store(s) // two that do it at once make one too many: it ends by itself too
	return s
}

// limited is a context with the end of one and the values of another.
type limited struct {
	context.Context
	values context.Context
}

// Value finds what the caller's context carries: spans and their like. What the context package asks
// for itself is the limit's.
func (c *limited) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
