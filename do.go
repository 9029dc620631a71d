package distlock

import (
	"context"
	"errors"
)

// Do runs f under the lock of a name, and waits for the lock as [Locker.Lock] does. The context of f
// ends when the lease is lost; [FromContext] finds the lease, and its fence, in it.
//
// Do returns an error if the lock was not acquired, if f returned one, or if the lease was lost
// before f returned: a run that lost its lock never returns nil. The error is [ErrNotAcquired] if
// and only if f did not run. If the lock could not be released, because the store did not answer for
// 5 s, it stays held until its TTL has passed. The work is done then, and Do does not return that
// error: observers get it with [EventReleased], and [Log] logs it.
func (l *Locker) Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error {
	if f == nil {
		return outcome(false, errNilFunc)
	}
	lease, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, f)
}

// TryDo runs f under the lock of a name if nobody holds it, and otherwise returns false and no error.
// The error is that of [Locker.Do]: [ErrNotAcquired] if and only if ran is false.
func (l *Locker) TryDo(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) (ran bool, err error) {
	if f == nil {
		return false, outcome(false, errNilFunc)
	}
	lease, err := l.TryLock(ctx, name, opts...)
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, lease.do(ctx, f)
}

// DoValue is [Locker.Do] for a function that returns a value. If the lease was lost, the value is
// returned together with the error.
func DoValue[T any](ctx context.Context, l *Locker, name string, f func(ctx context.Context) (T, error), opts ...Option) (T, error) {
	var v T
	if f == nil {
		return v, outcome(false, errNilFunc)
	}
	err := l.Do(ctx, name, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	}, opts...)
	return v, err
}

// do runs f and unlocks, also if f panics.
func (l *Lease) do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	defer func() { err = outcome(true, l.finish(ctx, err)) }()
	return f(l.Context(ctx))
}

// finish unlocks after the work, and returns the error of the work, and that of the lease if it was
// lost. A release that failed is not an error of the work: observers have it.
func (l *Lease) finish(ctx context.Context, err error) error {
	if lost := l.Unlock(ctx); errors.Is(lost, ErrLost) && !errors.Is(err, lost) { // f may return it too
		return errors.Join(err, lost)
	}
	return err
}
