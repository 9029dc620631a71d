package distlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
)

// ErrUpgrade says that a task which has the lock of a name as a reader asked for it as the writer: it would wait for
// itself. Two readers that did so would wait for each other. Give the lease back first, and look again at what was read:
// another writer may come before.
//
// It is known from the context: that of Lock was made by Context of the reader's lease. Nothing was asked of the store.
var ErrUpgrade = errors.New("distlock: a reader cannot become the writer")

// Downgrade makes a reader of a writer without a gap: no other writer can come before. Readers that wait are let in,
// those that wait behind a writer are not.
//
// The lease that it is called on is over, with ErrReleased, before the store is asked: what still works under its context must not
// write beside readers. The lease that is returned has the same fence and a full TTL, and its mode is Shared. MaxHold goes on.
//
// An error leaves nothing behind, unless it is ErrUnknown: the lock is given back. It is ErrLost if the lease was lost before or
// meanwhile, ErrClosed if the Locker was closed meanwhile, and ErrInvalid, with the lease as it was, if it was not made by Lock or TryLock.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if l.none() {
		return nil, ErrReleased
	}
	if k, _, _ := splitKey(l.r.Key); k != kindLock || l.r.mode != ModeExclusive {
		return nil, fmt.Errorf("%w: %v is not a writer's", ErrInvalid, l)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if mine, _ := l.depart(false, departLimit); !mine { //nolint:contextcheck // Err waits for nothing
		return nil, l.Err() //nolint:contextcheck // Err waits for nothing
	}
	reader, closed := l.succeed()
	if closed {
		return nil, errors.Join(ErrClosed, l.release(ctx))
	}
	if reader == nil { // lost at the same moment
		now, cancel := context.WithCancel(ctx)
		cancel()
		err := newLostError(l.r.name, l.fence, l.t.hold.Stop(now))
		l.part(ctx, EventLost, err, true)
		return nil, err
	}
	got := false
	defer reader.unless(ctx, &got)
	l.tell(ctx, Event{Type: EventHandedOff, Took: l.t.l.clock.Awake() - l.since})
	l.t.l.welcome(ctx, reader, Event{})
	err := reader.lower(ctx)
	got = true
	if err != nil {
		return nil, err
	}
	return reader, nil
}

// succeed puts a reader's lease in the place of the writer's, in the same turn. It returns nil if the turn is over, or the
// Locker closed: Close has seen the writer's lease by then, and would not look for another.
func (l *Lease) succeed() (reader *Lease, closed bool) {
	r := *l.r
	r.Weight, r.mode, r.room = 1, ModeShared, nil
	locker := l.t.l
	r.began = locker.clock.Awake() // what the writer waited is told already
	locker.mu.Lock()
	defer locker.mu.Unlock()
	if l.t.lease != l || locker.closed {
		return nil, locker.closed
	}
	l.conclude(nil, true)
	l.t.sealed = true
	reader = l.t.next(new(Lease), &r, true)
	reader.fence = l.fence // it is one hold of one claim
	return reader, false
}

// lower tells the store that the claim takes less. If the answer is lost it asks again, once. If it fails the lock is given back.
func (l *Lease) lower(ctx context.Context) error {
	t, res, same := l.t, driver.Result{}, false
	ask := l.r.Request
	ask.Owner = t.id.Owner
	call := func(ctx context.Context, ttl time.Duration) (err error) {
		var sent time.Duration
		ask.TTL = ttl
		res, sent, err = t.l.acquire(ctx, l.r, ask)
		// A claim that had ended was not lowered: what was granted is another one, with a higher fence.
		if same = err == nil && res.Granted && res.Fence <= t.fence; same {
			t.hold.Again(sent)
		}
		return err
	}
	err := t.hold.Alone(ctx, call) // an Extend of the writer's lease may be under way
	if err != nil && ctx.Err() == nil {
		err = t.hold.Alone(ctx, call)
	}
	switch {
	case t.hold.Trusted(0) && err != nil:
		op, left := newOpError("downgrade", l.r.name, err), l.Unlock(ctx)
		op.Unknown = left != nil
		return withCause(errors.Join(op, left), context.Cause(ctx))
	case !t.hold.Trusted(0) || !same:
		return l.forsake(ctx)
	}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.heard, t.behind = t.l.clock.Awake(), res.Behind
	t.l.tidy(t.n) // readers of this process may ask now
	return nil
}

// forsake gives back the claim of a reader that was not to be: the lease was lost meanwhile, or released by ReleaseAll.
func (l *Lease) forsake(ctx context.Context) error {
	l.t.hold.Gone() // it stays what it is if trust is over
	why := l.Err()  //nolint:contextcheck // Err waits for nothing
	if !errors.Is(why, ErrLost) {
		return errors.Join(why, l.Unlock(ctx)) // it is being given back: a second release would make that a loss
	}
	if err := l.t.l.withdraw(ctx, l.r, l.t.id); err != nil {
		return errors.Join(why, &OpError{Op: "downgrade", Name: l.r.name, Unknown: true, Err: err})
	}
	return why
}

// upgrades says that a writer's request comes from a task that has the lock as a reader.
func (l *Locker) upgrades(ctx context.Context, r *request) error {
	if FromContext(ctx) == nil { // most calls come under no lease
		return nil
	}
	own, _ := ctx.Value(holdKey{l, r.Key}).(*Lease)
	if own == nil || own.r.mode != ModeShared {
		return nil
	}
	err := fmt.Errorf("%w: %s is held by the caller", ErrUpgrade, quote(r.name))
	r.tell(ctx, Event{Type: EventRefused, Took: l.clock.Awake() - r.began, Err: err})
	return err
}
