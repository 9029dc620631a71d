package queue

import (
	"context"
	"errors"
	"time"

	"github.com/distlock/distlock/driver"
)

// Downgrade turns an exclusive lease into that of c, which takes less of the same key, without a
// gap. The lease has ended, with ErrReleased, before the store is called. The new lease has the
// same fence. An error leaves nothing behind, unless it says that the outcome is unknown: the claim
// is released.
func (l *Lease) Downgrade(ctx context.Context, c *Call) (*Lease, error) {
	if mine, _ := l.beginEnd(false, endLimit); !mine {
		return nil, l.Err()
	}
	next, closed := l.succeed(c)
	if closed {
		return nil, errors.Join(ErrClosed, l.release(ctx))
	}
	if next == nil { // lost at the same moment
		err := l.call.Caller.Lost(l.fence, l.t.hold.Cause())
		l.finishEnd(ctx, WasLost, err, true)
		return nil, err
	}
	got := false
	defer next.unless(ctx, &got)
	l.event(ctx, Event{Type: HandedOff, Took: l.t.m.clock.Awake() - l.since})
	l.t.m.welcome(ctx, next, Event{})
	err := next.lower(ctx)
	got = true
	if err != nil {
		return nil, err
	}
	return next, nil
}

// succeed puts a lease of c in the place of l, in the same tenure. It returns nil if the tenure has
// ended, or the Manager was closed: Close has seen l by then, and would not look for another.
func (l *Lease) succeed(c *Call) (next *Lease, closed bool) {
	m := l.t.m
	c.Began = m.clock.Awake() // the wait of l was reported already
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.t.lease != l || m.closed {
		return nil, m.closed
	}
	l.answerLocked(nil, true)
	l.t.pinned = true
	next = l.t.nextLocked(new(Lease), c, true)
	next.fence = l.fence // it is one hold of one claim
	return next, false
}

// lower reduces the claim in the store. If the answer is lost, it makes one more attempt. If that
// fails too, the claim is released.
func (l *Lease) lower(ctx context.Context) error {
	t, res, same := l.t, driver.Result{}, false
	r := l.call.Request
	r.Owner = t.id.Owner
	call := func(ctx context.Context, ttl time.Duration) (err error) {
		var sent time.Duration
		r.TTL = ttl
		res, sent, err = t.m.acquire(ctx, l.call, r)
		// A claim that had ended was not reduced: a new one was granted, with a higher fence.
		if same = err == nil && res.Granted && res.Fence <= t.fence; same {
			t.hold.Again(sent)
		}
		return err
	}
	err := t.hold.Alone(ctx, call) // an Extend of the exclusive lease may be under way
	if err != nil && ctx.Err() == nil {
		err = t.hold.Alone(ctx, call)
	}
	switch {
	case t.hold.Trusted(0) && err != nil:
		left := l.End(ctx)
		return withCause(errors.Join(l.call.Caller.Failed("downgrade", left != nil, err), left), context.Cause(ctx))
	case !t.hold.Trusted(0) || !same:
		return l.revoke(ctx)
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.heard, t.behind = t.m.clock.Awake(), res.Behind
	t.m.reconcileLocked(t.k) // waiters of this process may attempt now
	return nil
}

// revoke releases the claim of a lease whose call gets nothing: the lease was lost meanwhile, or
// released by ReleaseAll.
func (l *Lease) revoke(ctx context.Context) error {
	l.t.hold.Gone() // it stays what it is if trust has ended
	why := l.Err()
	if why == ErrReleased { //nolint:errorlint // this very one
		return errors.Join(why, l.End(ctx)) // it is being released: a second release would make that a loss
	}
	if err := l.t.m.withdraw(ctx, l.call, l.t.id); err != nil {
		return errors.Join(why, l.call.unknown("downgrade", err))
	}
	return why
}
