package distlock

import (
	"context"
	"errors"
)

// Do runs f under the lock of a name, waiting for it as Lock does. The context that f gets ends when
// the lease is lost; FromContext finds the lease, and its fence, in it.
//
// Do returns what f returned, joined with the loss of the lease and with what Unlock returned: a
// run that lost its lock never returns nil. f ran if and only if Do could take the
// lock; an error that is ErrHeld and not from f says that it could not.
func (l *Locker) Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error {
	if f == nil {
		return errNilFunc
	}
	lease, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, f)
}

// TryDo runs f under the lock of a name if nobody has it, and otherwise returns false and no
// error: somebody else is at it. The error is that of Do.
func (l *Locker) TryDo(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) (ran bool, err error) {
	if f == nil {
		return false, errNilFunc
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

// DoValue is Do for a function that returns a value. If the lease was lost the value is
// returned together with the error.
func DoValue[T any](ctx context.Context, l *Locker, name string, f func(ctx context.Context) (T, error), opts ...Option) (T, error) {
	var v T
	if f == nil {
		return v, errNilFunc
	}
	err := l.Do(ctx, name, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	}, opts...)
	return v, err
}

// do runs f and unlocks, also if f panics.
func (l *Lease) do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	defer func() {
		if lost := l.Unlock(ctx); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return f(l.Context(ctx))
}
