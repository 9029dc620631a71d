package distlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
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
		{"too long", nil, "maxhold", want{distlock.ErrMaxHold, distlock.ErrLost}, nil},
	} {
		for _, how := range []string{"Do", "TryDo", "DoValue"} {
			t.Run(how+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFlakyStore()
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
					wantErr(t, err, c.want...)
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
		w := newFlakyStore()
		taken(t, lockerOn(t, w, distlock.Holder("another")), "x")
		l := lockerOn(t, w)
		f := func(context.Context) error { t.Error("f ran"); return nil }
		if ran, err := l.TryDo(t.Context(), "x", f); ran || err != nil {
			t.Errorf("TryDo: %v, %v", ran, err)
		}
		wantErr(t, l.Do(t.Context(), "x", f, distlock.MaxWait(time.Minute)), distlock.ErrHeld, context.DeadlineExceeded)
		v, err := distlock.DoValue(t.Context(), l, "x", func(ctx context.Context) (string, error) { return "v", f(ctx) }, distlock.MaxWait(0))
		wantErr(t, err, distlock.ErrHeld)
		if v != "" {
			t.Errorf("value %q", v)
		}
		w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
		ran, err := l.TryDo(t.Context(), "x", f)
		wantErr(t, err, distlock.ErrUnavailable)
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
				w := newFlakyStore()
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
		l := lockerOn(t, newFlakyStore())
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
	l := lockerOn(t, newFlakyStore())
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
