package distlock

import (
	"context"
	"errors"
)

// A Doer runs functions under a lock: [Locker], [Readers] and [Semaphore].
type Doer interface {
	// Do runs f under the lock of a name, and waits for the lock: see [Locker.Do].
	Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error

	// TryDo runs f under the lock of a name if that can be acquired at once: see [Locker.TryDo].
	TryDo(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) (ran bool, err error)
}

// Do runs f under the lock of a name, and waits for the lock as [Locker.Lock] does. The context of
// f ends when the lease is lost; [FromContext] finds the lease, and its fence, in it.
//
// Do returns an error if the lock was not acquired, if f returned one, or if the lease was lost
// before f returned: a run that lost its lock never returns nil. If f failed and the lease was
// lost, the error matches both. The error is [ErrNotAcquired] if and only if f did not run. If f
// panics or ends its goroutine, Do unlocks, and the panic continues.
//
// f may unlock the lease itself: then Do returns the error of f alone. If [Locker.ReleaseAll], or a
// [Locker.Close] whose context ended, released the lock while f ran, the error is [ErrReleased]. If
// the lock could not be released, because the store did not answer for 5 s, it stays held until its
// TTL has passed. The work is done then, and Do does not return that error: observers get it with
// [EventReleased], and [Log] logs it.
func (l *Locker) Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error {
	return do(ctx, l.Lock, name, f, opts)
}

// TryDo runs f under the lock of a name if nobody holds it, and otherwise returns false and no
// error, also if the context of the call holds it. An error is that of [Locker.Do]:
// [ErrNotAcquired] if ran is false.
func (l *Locker) TryDo(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) (ran bool, err error) {
	return tryDo(ctx, l.TryLock, name, f, opts)
}

// Readers are the readers' side of the locks of a [Locker].
type Readers struct{ l *Locker }

// Readers returns the readers' side of the locks, for [DoValue] and the like.
func (l *Locker) Readers() Readers { return Readers{l} }

// Do runs f as a reader of a name, as [Locker.Do] does as the writer.
func (r Readers) Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error {
	return do(ctx, r.l.RLock, name, f, opts)
}

// TryDo runs f as a reader of a name, as [Locker.TryDo] does as the writer.
func (r Readers) TryDo(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) (ran bool, err error) {
	return tryDo(ctx, r.l.TryRLock, name, f, opts)
}

// Do runs f with a slot of a name, as [Locker.Do] does with a lock.
func (s *Semaphore) Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error {
	return do(ctx, s.Acquire, name, f, opts)
}

// TryDo runs f with a slot of a name, as [Locker.TryDo] does with a lock.
func (s *Semaphore) TryDo(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) (ran bool, err error) {
	return tryDo(ctx, s.TryAcquire, name, f, opts)
}

// DoValue is [Locker.Do] for a function that returns a value. If the lease was lost, the value is
// returned together with the error.
func DoValue[T any](ctx context.Context, d Doer, name string, f func(ctx context.Context) (T, error), opts ...Option) (v T, err error) {
	if f == nil {
		return v, outcome(false, errNilFunc)
	}
	err = d.Do(ctx, name, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	}, opts...)
	return v, err
}

// TryDoValue is [Locker.TryDo] for a function that returns a value.
func TryDoValue[T any](ctx context.Context, d Doer, name string, f func(ctx context.Context) (T, error), opts ...Option) (v T, ran bool, err error) {
	if f == nil {
		return v, false, outcome(false, errNilFunc)
	}
	ran, err = d.TryDo(ctx, name, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	}, opts...)
	return v, ran, err
}

// An acquirer acquires a lease: Lock and the like.
type acquirer func(ctx context.Context, name string, opts ...Option) (*Lease, error)

// do runs f under a lease.
func do(ctx context.Context, acquire acquirer, name string, f func(ctx context.Context) error, opts []Option) error {
	if f == nil {
		return outcome(false, errNilFunc)
	}
	lease, err := acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	_, err = lease.do(ctx, f)
	return err
}

// tryDo runs f under a lease, unless another holds the lock.
func tryDo(ctx context.Context, try acquirer, name string, f func(ctx context.Context) error, opts []Option) (ran bool, err error) {
	if f == nil {
		return false, outcome(false, errNilFunc)
	}
	lease, err := try(ctx, name, opts...)
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return lease.do(ctx, f)
}

// do runs f and unlocks, also if f panics. It does not run f if the Locker was closed meanwhile.
func (l *Lease) do(ctx context.Context, f func(ctx context.Context) error) (ran bool, err error) {
	if !l.q.BeginWork() {
		return false, outcome(false, l.finish(ctx, ErrClosed))
	}
	defer func() { err = outcome(true, l.finish(ctx, err)) }()
	return true, f(l.Context(ctx))
}

// finish unlocks after the work, and returns the error of the work, and that of the lease if it
// ended before the work did. A release that failed is not an error of the work: observers have it.
func (l *Lease) finish(ctx context.Context, err error) error {
	lost := l.Unlock(ctx)
	switch {
	case errors.Is(lost, ErrLost):
	case l.q.Taken():
		lost = ErrReleased
	default:
		return err
	}
	if errors.Is(err, lost) { // f may return it too
		return err
	}
	return errors.Join(err, lost)
}
