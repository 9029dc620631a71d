package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A runFunc runs f under the lock of a name.
type runFunc func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error

// runners are all calls that take a function and run it under a lock.
var runners = map[string]runFunc{
	"Do": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		return l.Do(ctx, name, f, distlock.MaxWait(time.Second))
	},
	"TryDo": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		_, err := l.TryDo(ctx, name, f)
		return err
	},
	"DoValue": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		_, err := distlock.DoValue(ctx, l, name, valued(f), distlock.MaxWait(time.Second))
		return err
	},
	"Semaphore.Do": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		s, err := l.Semaphore(1)
		if err != nil {
			return err
		}
		return s.Do(ctx, name, f, distlock.MaxWait(time.Second))
	},
	"Once.Do": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		once, err := distlock.NewOnce[int](l, time.Hour, nil)
		if err != nil {
			return err
		}
		_, err = once.Do(ctx, name, valued(f), distlock.MaxWait(time.Second))
		return err
	},
	"Cron.Run": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		cron, err := l.Cron(nil)
		if err != nil {
			return err
		}
		_, err = cron.Run(ctx, name, time.Unix(0, 0), f)
		return err
	},
	"Election.Run": func(ctx context.Context, l *distlock.Locker, name string, f func(context.Context) error) error {
		e, err := l.Election()
		if err != nil {
			return errors.Join(err, distlock.ErrNotAcquired) // the error is not from Run
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if f == nil {
			return e.Run(ctx, name, nil)
		}
		return e.Run(ctx, name, func(ctx context.Context, _ *distlock.Term) error { return f(ctx) })
	},
}

// takers are all calls that acquire a lock and run no function.
var takers = map[string]runFunc{
	"Lock": func(ctx context.Context, l *distlock.Locker, name string, _ func(context.Context) error) error {
		_, err := l.Lock(ctx, name, distlock.MaxWait(time.Second))
		return err
	},
	"TryRLock": func(ctx context.Context, l *distlock.Locker, name string, _ func(context.Context) error) error {
		_, err := l.TryRLock(ctx, name)
		return err
	},
	"LockAll": func(ctx context.Context, l *distlock.Locker, name string, _ func(context.Context) error) error {
		_, err := l.LockAll(ctx, []string{name, name + "2"}, distlock.MaxWait(time.Second))
		return err
	},
	"TryAcquire": func(ctx context.Context, l *distlock.Locker, name string, _ func(context.Context) error) error {
		s, err := l.Semaphore(1)
		if err == nil {
			_, err = s.TryAcquire(ctx, name)
		}
		return err
	},
	"Allow": func(ctx context.Context, l *distlock.Locker, name string, _ func(context.Context) error) error {
		m, err := l.Limiter(1, time.Hour)
		if err == nil {
			err = m.Allow(ctx, name)
		}
		return err
	},
}

// valued returns f with a value as its result. It returns nil if f is nil.
func valued(f func(context.Context) error) func(context.Context) (int, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context) (int, error) { return 7, f(ctx) }
}

// If a function did not run, for any reason, the error is ErrNotAcquired together with the reason.
func TestErrNotAcquired(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, w *flakyStore, l *distlock.Locker, ctx context.Context, run func(ctx context.Context, name string) error) error
		want error
		nils bool // TryDo and Cron return no error
	}{
		{"held", func(t *testing.T, w *flakyStore, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			other := lockerOn(t, w)
			taken(t, other, "x")
			for _, kind := range []string{"~sem/", "~once/", "~lead/", "~rate/"} {
				_, _ = w.Store.Acquire(ctx, driver.Request{ID: driver.ID{Key: kind + "x", Owner: "other"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Hour})
			}
			return run(ctx, "x")
		}, nil, true},
		{"unavailable", func(_ *testing.T, w *flakyStore, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			return run(ctx, "x")
		}, distlock.ErrUnavailable, false},
		{"unknown", func(_ *testing.T, w *flakyStore, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			w.cut()
			return run(ctx, "x")
		}, distlock.ErrUnknown, false},
		{"cancelled", func(_ *testing.T, _ *flakyStore, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return run(ctx, "x")
		}, context.Canceled, false},
		{"invalid", func(_ *testing.T, _ *flakyStore, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			return run(ctx, "")
		}, nil, false},
		{"closed", func(t *testing.T, _ *flakyStore, l *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			_ = l.Close(t.Context())
			return run(ctx, "x")
		}, distlock.ErrClosed, false},
	} {
		for _, all := range []map[string]runFunc{runners, takers} {
			for name, call := range all {
				t.Run(c.name+" "+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newFlakyStore()
						l := lockerOn(t, w)
						err := c.do(t, w, l, t.Context(), func(ctx context.Context, key string) error {
							return call(ctx, l, key, func(context.Context) error { t.Error("it ran"); return nil })
						})
						w.mend()
						if err == nil && c.nils && (name == "TryDo" || name == "Cron.Run") {
							return
						}
						wantErr(t, err, distlock.ErrNotAcquired)
						if c.want != nil {
							wantErr(t, err, c.want)
						}
					})
				})
			}
		}
	}
	for name, run := range runners {
		t.Run("no function "+name, func(t *testing.T) {
			err := run(t.Context(), lockerOn(t, newFlakyStore()), "x", nil)
			wantErr(t, err, distlock.ErrNotAcquired, distlock.ErrInvalid)
		})
	}
	t.Run("remembered failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			once, err := distlock.NewOnce(lockerOn(t, newFlakyStore()), time.Hour, &distlock.OnceOptions[int]{Failures: func(error) bool { return true }})
			if err != nil {
				t.Fatal(err)
			}
			for _, ran := range []bool{true, false} {
				_, err := once.Do(t.Context(), "x", func(context.Context) (int, error) { return 0, errCut })
				if err == nil || errors.Is(err, distlock.ErrNotAcquired) == ran {
					t.Errorf("ran %v, error %v", ran, err)
				}
			}
		})
	})
	t.Run("deadlock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newFlakyStore())
			lease := taken(t, l, "x")
			err := l.Do(lease.Context(t.Context()), "x", func(context.Context) error { t.Error("it ran"); return nil })
			wantErr(t, err, distlock.ErrNotAcquired, distlock.ErrDeadlock)
		})
	})
}

// A function that ran and returns the error of a lock within has run: the outer call keeps all of
// the error but ErrNotAcquired.
func TestErrNotAcquired_nested(t *testing.T) {
	inners := map[string]runFunc{}
	for _, all := range []map[string]runFunc{runners, takers} {
		for name, call := range all {
			inners[name] = call
		}
	}
	for outer, run := range runners {
		for inner, call := range inners {
			t.Run(fmt.Sprintf("%s in %s", inner, outer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFlakyStore()
					l, ran := lockerOn(t, w), false
					err := run(t.Context(), l, "outer", func(ctx context.Context) error {
						ran = true
						w.on(func(_ context.Context, verb string) error {
							if verb == "acquire" {
								return driver.ErrUnavailable
							}
							return nil
						}, nil)
						err := call(ctx, l, "inner", func(context.Context) error { t.Error("the inner one ran"); return nil })
						w.mend()
						wantErr(t, err, distlock.ErrNotAcquired, distlock.ErrUnavailable)
						return fmt.Errorf("the function returns: %w", err)
					})
					wantErr(t, err, distlock.ErrUnavailable)
					var op *distlock.OpError
					if !ran || errors.Is(err, distlock.ErrNotAcquired) || !errors.As(err, &op) || op.Op != "acquire" {
						t.Errorf("ran %v, error %v", ran, err)
					}
				})
			})
		}
	}
}
