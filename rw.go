package distlock

import (
	"context"
	"errors"
	"fmt"
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
	r := l.r.derive()
	r.Weight, r.mode = 1, ModeShared
	reader, err := l.q.Downgrade(ctx, &r.Call)
	if err != nil {
		return nil, err
	}
	return r.newLease(reader), nil
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
	r.emit(ctx, Event{Type: EventRefused, Took: l.clock.Awake() - r.Began, Err: err})
	return err
}
