package distlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// late is the longest time from the end of a call's ctx to its return.
const late = 20 * time.Millisecond

// A call that acquires or reads returns within 20 ms of the end of its ctx, although the store does
// not answer any more. A goroutine releases the claim that the call may have left in the store, and
// Close waits for it.
func TestBound(t *testing.T) {
	const bound = 90 * time.Millisecond
	calls := map[string]func(ctx context.Context, l *distlock.Locker, name string) error{
		"Locker.Why": func(ctx context.Context, l *distlock.Locker, name string) error {
			_, err := l.Status(ctx, distlock.KindLock, name)
			return err
		},
		"Locker.Ping": func(ctx context.Context, l *distlock.Locker, _ string) error { return l.Ping(ctx) },
		"TryLock": func(ctx context.Context, l *distlock.Locker, name string) error {
			_, err := l.TryLock(ctx, name)
			return err
		},
		"large Limiter": func(ctx context.Context, l *distlock.Locker, name string) error {
			m, err := l.Limiter(1_000_000, time.Hour)
			if err == nil {
				err = m.Wait(ctx, name)
			}
			return err
		},
		"Leader": func(ctx context.Context, l *distlock.Locker, name string) error {
			e, err := l.Election()
			if err == nil {
				_, err = e.Leader(ctx, name)
			}
			return err
		},
	}
	for _, all := range []map[string]runFunc{runners, takers} {
		for name, call := range all {
			calls[name] = func(ctx context.Context, l *distlock.Locker, key string) error {
				return call(ctx, l, key, func(context.Context) error { t.Error("it ran"); return nil })
			}
		}
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				l := lockerOn(t, w)
				w.on(nil, hang) // requests take effect, and are never answered
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				began := time.Now()
				err := call(ctx, l, "x")
				if took := time.Since(began); err == nil || took < bound || took > bound+late {
					t.Errorf("%v after %v", err, took)
				}
				w.mend()
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
				for c := range w.Store.List(t.Context(), "") {
					t.Errorf("left behind: %+v", c)
				}
			})
		})
	}
}

// hang blocks until ctx ends.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// The same holds for a call that waits: in the queue, with a lease in its context, and with one
// lock of two acquired.
func TestBound_waiting(t *testing.T) {
	const bound = 3 * time.Second
	for name, call := range map[string]func(ctx context.Context, l *distlock.Locker, own *distlock.Lease) error{
		"in the queue": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) error {
			_, err := l.Lock(ctx, "held")
			return err
		},
		"with a lease": func(ctx context.Context, l *distlock.Locker, own *distlock.Lease) error {
			_, err := l.Lock(own.Context(ctx), "held")
			return err
		},
		"with one of two": func(ctx context.Context, l *distlock.Locker, own *distlock.Lease) error {
			_, err := l.LockAll(own.Context(ctx), []string{"free", "held"})
			return err
		},
		"for a slot": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) error {
			s, err := l.Semaphore(1)
			if err != nil {
				return err
			}
			_, _ = s.Acquire(ctx, "held")
			_, err = s.Acquire(ctx, "held")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				taken(t, lockerOn(t, w, distlock.TTL(time.Hour)), "held")
				l := lockerOn(t, w)
				own := taken(t, l, "own")
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				time.AfterFunc(2*time.Second, func() { w.on(hang, hang) })
				began := time.Now()
				err := call(ctx, l, own)
				if took := time.Since(began); took < bound || took > bound+late {
					t.Errorf("%v after %v", err, took)
				}
				wants(t, err, distlock.ErrNotAcquired, context.DeadlineExceeded)
				w.mend()
			})
		})
	}
}

// A call without a deadline on a store that does not answer gives up after 5 s, or after its TTL if
// that is shorter. It takes up to a second to undo its attempt.
func TestBound_none(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{time.Minute: 6 * time.Second, time.Second: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w, distlock.TTL(ttl))
			before := taken(t, lockerOn(t, w), "contended")
			// After this refusal the next call enters the queue at once.
			_, _ = l.Lock(t.Context(), "contended", distlock.MaxWait(time.Millisecond))
			free(t, before)
			w.on(hang, nil)
			for name, take := range map[string]takeFunc{"x": l.TryLock, "y": l.Lock, "contended": l.Lock} {
				began := time.Now()
				_, err := take(t.Context(), name)
				if took := time.Since(began); took > most {
					t.Errorf("TTL %v, %s: it took %v", ttl, name, took)
				}
				wants(t, err, distlock.ErrNotAcquired, distlock.ErrUnknown)
			}
			w.mend()
		})
	}
}

// If a fast store undoes the attempt in time, the outcome is known.
func TestBound_undoneInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		w.on(nil, func(ctx context.Context, verb string) error {
			if verb == "acquire" {
				return hang(ctx, verb)
			}
			time.Sleep(2 * time.Millisecond)
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.TryLock(ctx, "x")
		wants(t, err, distlock.ErrUnavailable, context.DeadlineExceeded)
		if errors.Is(err, distlock.ErrUnknown) {
			t.Error(err)
		}
		if claims, _ := driver.Show(t.Context(), w.Store, "x"); len(claims) > 0 {
			t.Errorf("left behind: %+v", claims)
		}
		w.mend()
	})
}

// Close waits for the releases that calls have left to the background, and not for ever.
func TestBound_close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		w.on(hang, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.TryLock(ctx, "x")
		wants(t, err, distlock.ErrUnknown)
		began := time.Now()
		_ = l.Close(t.Context())
		if took := time.Since(began); took == 0 || took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

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
