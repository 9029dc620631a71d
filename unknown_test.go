package distlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// An attempt whose answers are lost does not return ErrHeld: it was undone, or its outcome is
// unknown.
func TestLocker_TryLock_unknown(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			_, _ = next(ctx, r)
			return driver.Result{}, errCut
		}
		try := func(want error) {
			t.Helper()
			_, err := l.TryLock(t.Context(), "k")
			wants(t, err, want)
			if errors.Is(err, distlock.ErrHeld) {
				t.Error(err)
			}
		}
		try(distlock.ErrUnavailable)
		g.empty(t)
		g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		try(distlock.ErrUnknown)
	})
}

// The first attempt reaches the store late, so that the second one is refused because of it. Its
// claim is released.
func TestLocker_TryLock_underWay(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		attempts := 0
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if attempts++; attempts == 1 {
				return driver.Result{}, errCut
			}
			if _, err := next(ctx, r); err != nil { // the first takes effect
				t.Error(err)
			}
			return driver.Result{Used: driver.Whole}, nil
		}
		_, err := l.TryLock(t.Context(), "k")
		wants(t, err, distlock.ErrHeld)
		g.empty(t)
		attempts = 0
		g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		if _, err = l.TryLock(t.Context(), "k"); errors.Is(err, distlock.ErrHeld) {
			t.Error(err)
		}
		wants(t, err, distlock.ErrUnknown)
	})
}
