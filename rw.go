package distlock

import (
	"context"
	"errors"
)

// ErrUpgrade says that a call for a lock as the writer has a context that holds the same lock as a
// reader: it would wait for itself. Two readers that did so would wait for each other. Unlock the
// lease first, and read the data again: another writer may come before.
//
// The context shows this: it was made by [Lease.Context] of the reader's lease. The store is not
// called.
var ErrUpgrade = errors.New("distlock: a reader cannot become the writer")

// RLock acquires the lock of a name together with other readers. It waits while a writer holds the
// lock, or waits for it: where the store can queue, readers do not overtake a writer. [Locker.Lock]
// is the writer's side.
func (l *Locker) RLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeShared, name, opts)
}

// TryRLock acquires the lock of a name together with other readers, or returns [ErrHeld] at once.
func (l *Locker) TryRLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeShared, name, append(opts[:len(opts):len(opts)], noWait))
}

// Downgrade makes a reader of a writer without a gap: no other writer can come in between. Readers
// that wait get the lock, but those behind a writer in the queue do not.
//
// The writer's lease ends with [ErrReleased] before the store is called: work under its context
// must not write while others read. The new lease has the same fence, a full TTL, and [ModeShared];
// its [MaxHold] continues.
//
// An error leaves nothing behind, unless it is [ErrUnknown]: the lock is released. The error is
// [ErrLost] if the lease was lost before or meanwhile, [ErrClosed] if the [Locker] was closed
// meanwhile, and [ErrInvalid], with the lease as it was, if [Locker.Lock] or [Locker.TryLock] did
// not make it.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if l.none() {
		return nil, ErrReleased
	}
	if keyKind(l.r.Key) != KindLock || l.r.mode != ModeExclusive {
		return nil, invalid("lease", "%v is not a writer's", l)
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
