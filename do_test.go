package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func TestDo(t *testing.T) {
	mine := errors.New("mine")
	type want []error
	for _, c := range []struct {
		name  string
		f     error  // the result of f
		fate  string // of the lease while f runs
		want  want
		never want
	}{
		{"well", nil, "", nil, nil},
		{"f fails", mine, "", want{mine}, want{distlock.ErrLost, distlock.ErrUnknown}},
		{"lost", nil, "lost", want{distlock.ErrLost}, want{distlock.ErrReleased}},
		{"lost and f fails", mine, "lost", want{mine, distlock.ErrLost}, nil},
		{"broken unseen", nil, "broken", want{distlock.ErrLost}, nil},
		{"broken unseen and f fails", mine, "broken", want{mine, distlock.ErrLost}, nil},
		{"release not answered", nil, "cut", nil, nil},
		{"release not answered and f fails", mine, "cut", want{mine}, want{distlock.ErrLost, distlock.ErrUnknown, distlock.ErrUnavailable}},
		{"release refused", nil, "down", nil, nil},
		{"release refused and f fails", mine, "down", want{mine}, want{distlock.ErrLost, distlock.ErrUnknown, distlock.ErrUnavailable}},
		{"f returns the loss", nil, "cause", want{distlock.ErrLost}, nil},
		{"f unlocks", nil, "unlock", nil, nil},
		{"f unlocks and fails", mine, "unlock", want{mine}, want{distlock.ErrReleased}},
		{"f gives it away", nil, "handle", nil, nil},
		{"released under f", nil, "all", want{distlock.ErrReleased}, want{distlock.ErrLost}},
		{"released under f, which fails", mine, "all", want{mine, distlock.ErrReleased}, nil},
		{"f unlocks before all are released", nil, "unlock, all", nil, nil},
		{"lost before all are released", nil, "lost, all", want{distlock.ErrLost}, want{distlock.ErrReleased}},
		{"too long", nil, "maxhold", want{distlock.ErrMaxHold, distlock.ErrLost}, nil},
	} {
		for _, how := range []string{"Do", "TryDo", "DoValue"} {
			t.Run(how+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newGate()
					p := &tape{}
					l := lockerOn(t, w, distlock.MaxHold(time.Hour), distlock.Observe(p.observe))
					f := func(ctx context.Context) error {
						lease := distlock.FromContext(ctx)
						if lease == nil || lease.Name() != "x" || ctx.Err() != nil {
							t.Fatal("no lease in the context")
						}
						switch c.fate {
						case "lost":
							w.cut()
							<-ctx.Done()
							w.mend()
						case "cause":
							w.cut()
							<-ctx.Done()
							w.mend()
							return context.Cause(ctx)
						case "broken":
							_, _ = driver.Break(t.Context(), w, "x", 0, "")
						case "cut":
							w.cut()
						case "down":
							w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
						case "unlock":
							_ = lease.Unlock(ctx)
						case "all":
							_ = l.ReleaseAll(ctx)
						case "unlock, all":
							_ = lease.Unlock(ctx)
							_ = l.ReleaseAll(ctx)
						case "lost, all":
							w.cut()
							<-ctx.Done()
							w.mend()
							_ = l.ReleaseAll(ctx)
						case "handle":
							_, _ = lease.Detach(t.Context())
						case "maxhold":
							time.Sleep(time.Hour)
						}
						return c.f
					}
					var err error
					switch how {
					case "Do":
						err = l.Do(t.Context(), "x", f)
					case "TryDo":
						var ran bool
						if ran, err = l.TryDo(t.Context(), "x", f); !ran {
							t.Error("it did not run")
						}
					case "DoValue":
						var v int
						v, err = distlock.DoValue(t.Context(), l, "x", func(ctx context.Context) (int, error) { return 7, f(ctx) })
						if v != 7 {
							t.Errorf("value %d", v)
						}
					}
					if (err == nil) != (c.want == nil) {
						t.Fatalf("error %v, want %v", err, c.want)
					}
					wants(t, err, c.want...)
					if c.fate == "cut" || c.fate == "down" { // the error comes from the observer
						if ends := p.all(distlock.EventReleased); len(ends) != 1 || ends[0].Err == nil {
							t.Errorf("observed %+v", ends)
						}
					}
					if c.fate == "cause" && strings.Count(err.Error(), "\n") > 0 {
						t.Errorf("the loss is in the error twice: %v", err)
					}
					if errors.Is(err, distlock.ErrNotAcquired) {
						t.Errorf("f ran, but the error %v says that it did not", err)
					}
					for _, never := range c.never {
						if errors.Is(err, never) {
							t.Errorf("error %v is %v", err, never)
						}
					}
					if c.fate == "" && c.f != nil && err != c.f { //nolint:errorlint // the same value
						t.Errorf("Do returned f's error as %T", err)
					}
					w.mend()
				})
			})
		}
	}
}

func TestDo_held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		taken(t, lockerOn(t, w, distlock.Holder("another")), "x")
		l := lockerOn(t, w)
		f := func(context.Context) error { t.Error("f ran"); return nil }
		if ran, err := l.TryDo(t.Context(), "x", f); ran || err != nil {
			t.Errorf("TryDo: %v, %v", ran, err)
		}
		wants(t, l.Do(t.Context(), "x", f, distlock.MaxWait(time.Minute)), distlock.ErrHeld, context.DeadlineExceeded)
		v, err := distlock.DoValue(t.Context(), l, "x", func(ctx context.Context) (string, error) { return "v", f(ctx) }, distlock.MaxWait(0))
		wants(t, err, distlock.ErrHeld)
		if v != "" {
			t.Errorf("value %q", v)
		}
		w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
		ran, err := l.TryDo(t.Context(), "x", f)
		wants(t, err, distlock.ErrUnavailable)
		if ran {
			t.Error("it ran")
		}
		w.mend()
	})
}

func TestDo_unlocksHoweverFEnds(t *testing.T) {
	for name, f := range map[string]func(context.Context) error{
		"panic":  func(context.Context) error { panic("mine") },
		"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				l := lockerOn(t, w)
				done := make(chan any, 1)
				go func() {
					returned := false
					defer func() {
						what := recover()
						if returned {
							what = "returned"
						}
						done <- what
					}()
					_ = l.Do(t.Context(), "x", f)
					returned = true
				}()
				switch what := <-done; {
				case name == "panic" && what != "mine", name == "Goexit" && what != nil, what == "returned":
					t.Errorf("it ended with %v", what)
				}
				taken(t, l, "x")
			})
		})
	}
}

func TestDo_unlocksAlthoughTheContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockerOn(t, newGate())
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, "x", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != context.Canceled { //nolint:errorlint // the same value
			t.Error(err)
		}
		taken(t, l, "x")
	})
}

func TestDo_nested(t *testing.T) {
	l := lockerOn(t, newGate())
	err := l.Do(t.Context(), "a", func(ctx context.Context) error {
		return l.Do(ctx, "b", func(ctx context.Context) error {
			if key := distlock.FromContext(ctx).Name(); key != "b" {
				t.Errorf("innermost is %s", key)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The error contains the loss once if f returns the cause of its context.
func TestDo_oneLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		err := g.locker(t).Do(t.Context(), "x", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, distlock.TTL(time.Second), distlock.NoRenewal())
		wants(t, err, distlock.ErrLost)
		if n := strings.Count(err.Error(), "lost"); n != 1 {
			t.Errorf("%d times in %q", n, err)
		}
	})
}

// TestDoer runs functions under every kind of lock that can.
func TestDoer(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := t.Context(), g.locker(t)
		slots, err := l.Semaphore(1)
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		for _, tt := range []struct {
			name string
			doer distlock.Doer
			mode distlock.Mode
			rest func() (*distlock.Lease, error) // takes what is left for the doer
		}{
			{"lock", l, distlock.ModeExclusive, func() (*distlock.Lease, error) { return l.RLock(ctx, "x") }},
			{"readers", l.Readers(), distlock.ModeShared, func() (*distlock.Lease, error) { return l.Lock(ctx, "x") }},
			{"semaphore", slots, distlock.ModeCounted, func() (*distlock.Lease, error) { return slots.Acquire(ctx, "x") }},
		} {
			f := func(ctx context.Context) (distlock.Mode, error) { return distlock.FromContext(ctx).Mode(), broken }
			if v, err := distlock.DoValue(ctx, tt.doer, "x", f); v != tt.mode || !errors.Is(err, broken) || errors.Is(err, distlock.ErrNotAcquired) {
				t.Errorf("%s: DoValue: %v, %v", tt.name, v, err)
			}
			if v, ran, err := distlock.TryDoValue(ctx, tt.doer, "x", f); v != tt.mode || !ran || !errors.Is(err, broken) {
				t.Errorf("%s: TryDoValue: %v, %v, %v", tt.name, v, ran, err)
			}
			other := must(t)(tt.rest())
			if v, ran, err := distlock.TryDoValue(ctx, tt.doer, "x", f); v != "" || ran || err != nil {
				t.Errorf("%s: TryDoValue of a lock that is held: %v, %v, %v", tt.name, v, ran, err)
			}
			free(t, other)
			wants(t, tt.doer.Do(ctx, "x", nil), distlock.ErrInvalid)
			_, err := tt.doer.TryDo(ctx, "x", nil)
			wants(t, err, distlock.ErrInvalid)
			_, _, err = distlock.TryDoValue[int](ctx, tt.doer, "x", nil)
			wants(t, err, distlock.ErrNotAcquired)
			_, err = tt.doer.TryDo(ctx, "", func(context.Context) error { return nil })
			wants(t, err, distlock.ErrNotAcquired)
		}
		g.empty(t, l)
	})
}

func ExampleReaders_Do() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	err := locker.Readers().Do(ctx, "config", func(ctx context.Context) error {
		fmt.Println(distlock.FromContext(ctx).Mode())
		return nil
	})
	fmt.Println(err)
	// Output:
	// shared
	// <nil>
}

func ExampleReaders_TryDo() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	writer, _ := locker.Lock(ctx, "config")
	ran, err := locker.Readers().TryDo(ctx, "config", func(context.Context) error { return nil })
	fmt.Println(ran, err, writer.Unlock(ctx))
	// Output: false <nil> <nil>
}

func ExampleLocker_Readers() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	size, err := distlock.DoValue(ctx, locker.Readers(), "config", func(context.Context) (int, error) { return 42, nil })
	fmt.Println(size, err)
	// Output: 42 <nil>
}

func ExampleTryDoValue() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	size, ran, err := distlock.TryDoValue(ctx, locker, "report", func(context.Context) (int, error) { return 42, nil })
	fmt.Println(size, ran, err)
	// Output: 42 true <nil>
}

func ExampleSemaphore_TryDo() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)
	uploads, _ := locker.Semaphore(2)

	ran, err := uploads.TryDo(ctx, "bucket", func(context.Context) error { return nil })
	fmt.Println(ran, err)
	// Output: true <nil>
}

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
		do   func(t *testing.T, w *gate, l *distlock.Locker, ctx context.Context, run func(ctx context.Context, name string) error) error
		want error
		nils bool // TryDo and Cron return no error
	}{
		{"held", func(t *testing.T, w *gate, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			other := lockerOn(t, w)
			taken(t, other, "x")
			for _, kind := range []string{"~sem/", "~once/", "~lead/", "~rate/"} {
				_, _ = w.Store.Acquire(ctx, driver.Request{ID: driver.ID{Key: kind + "x", Owner: "other"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Hour})
			}
			return run(ctx, "x")
		}, nil, true},
		{"unavailable", func(_ *testing.T, w *gate, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			return run(ctx, "x")
		}, distlock.ErrUnavailable, false},
		{"unknown", func(_ *testing.T, w *gate, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			w.cut()
			return run(ctx, "x")
		}, distlock.ErrUnknown, false},
		{"cancelled", func(_ *testing.T, _ *gate, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return run(ctx, "x")
		}, context.Canceled, false},
		{"invalid", func(_ *testing.T, _ *gate, _ *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			return run(ctx, "")
		}, nil, false},
		{"closed", func(t *testing.T, _ *gate, l *distlock.Locker, ctx context.Context, run func(context.Context, string) error) error {
			_ = l.Close(t.Context())
			return run(ctx, "x")
		}, distlock.ErrClosed, false},
	} {
		for _, all := range []map[string]runFunc{runners, takers} {
			for name, call := range all {
				t.Run(c.name+" "+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newGate()
						l := lockerOn(t, w)
						err := c.do(t, w, l, t.Context(), func(ctx context.Context, key string) error {
							return call(ctx, l, key, func(context.Context) error { t.Error("it ran"); return nil })
						})
						w.mend()
						if err == nil && c.nils && (name == "TryDo" || name == "Cron.Run") {
							return
						}
						wants(t, err, distlock.ErrNotAcquired)
						if c.want != nil {
							wants(t, err, c.want)
						}
					})
				})
			}
		}
	}
	for name, run := range runners {
		t.Run("no function "+name, func(t *testing.T) {
			err := run(t.Context(), lockerOn(t, newGate()), "x", nil)
			wants(t, err, distlock.ErrNotAcquired, distlock.ErrInvalid)
		})
	}
	t.Run("remembered failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			once, err := distlock.NewOnce(lockerOn(t, newGate()), time.Hour, &distlock.OnceOptions[int]{Failures: func(error) bool { return true }})
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
			l := lockerOn(t, newGate())
			lease := taken(t, l, "x")
			err := l.Do(lease.Context(t.Context()), "x", func(context.Context) error { t.Error("it ran"); return nil })
			wants(t, err, distlock.ErrNotAcquired, distlock.ErrDeadlock)
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
					w := newGate()
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
						wants(t, err, distlock.ErrNotAcquired, distlock.ErrUnavailable)
						return fmt.Errorf("the function returns: %w", err)
					})
					wants(t, err, distlock.ErrUnavailable)
					var op *distlock.OpError
					if !ran || errors.Is(err, distlock.ErrNotAcquired) || !errors.As(err, &op) || op.Op != "acquire" {
						t.Errorf("ran %v, error %v", ran, err)
					}
				})
			})
		}
	}
}
