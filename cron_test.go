package distlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func cron(t *testing.T, l *distlock.Locker, o *distlock.CronOptions) *distlock.Cron {
	t.Helper()
	c, err := l.Cron(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Three schedulers, whose clocks differ by seconds, fire a job every minute.
func TestCron_Run_oncePerFire(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var mu sync.Mutex
		runs := map[time.Time]int{}
		var wg sync.WaitGroup
		first := time.Now().Truncate(time.Minute).Add(time.Minute)
		for _, late := range []time.Duration{0, 3 * time.Second, 40 * time.Second} {
			c := cron(t, g.locker(t), nil)
			wg.Go(func() {
				for i := range 30 {
					fire := first.Add(time.Duration(i) * time.Minute)
					time.Sleep(time.Until(fire) + late)
					_, err := c.Run(context.Background(), "report", fire, func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						runs[fire]++
						if i%2 == 0 {
							return errCut // a failed run counts as a run
						}
						return nil
					})
					if err != nil && !errors.Is(err, errCut) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if len(runs) != 30 {
			t.Errorf("%d fires were run, want 30", len(runs))
		}
		for fire, n := range runs {
			if n != 1 {
				t.Errorf("the fire of %v was run %d times", fire, n)
			}
		}
	})
}

func TestCron_Run_skipsIfRunning(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		inBubble(t, func(t *testing.T, g *gate) {
			ctx, at := context.Background(), time.Now()
			a, b := cron(t, g.locker(t), &distlock.CronOptions{Overlap: overlap}), cron(t, g.locker(t), &distlock.CronOptions{Overlap: overlap})
			var inner atomic.Bool
			ran, err := a.Run(ctx, "report", at, func(ctx context.Context) error {
				ran, err := b.Run(ctx, "report", at.Add(time.Minute), func(context.Context) error {
					inner.Store(true)
					return nil
				})
				if ran != overlap || inner.Load() != overlap {
					t.Errorf("overlap %v: the next fire ran: %v", overlap, ran)
				}
				return err
			})
			if !ran || err != nil {
				t.Errorf("%v, %v", ran, err)
			}
			// A late scheduler does not run a fire that was skipped.
			ran, err = a.Run(ctx, "report", at.Add(time.Minute), func(context.Context) error {
				t.Error("it ran late")
				return nil
			})
			if ran || err != nil {
				t.Errorf("late: %v, %v", ran, err)
			}
			ran, err = a.Run(ctx, "report", at.Add(2*time.Minute), func(context.Context) error { return nil })
			if !ran || err != nil {
				t.Errorf("the fire after that: %v, %v", ran, err)
			}
		})
	}
}

// A job that panics usually ends its process. Its fire counts as done: a later scheduler would
// panic too.
func TestCron_Run_panics(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		inBubble(t, func(t *testing.T, g *gate) {
			ctx, at := context.Background(), time.Now()
			o := &distlock.CronOptions{Overlap: overlap}
			func() {
				defer func() {
					if got := recover(); got != "oh" {
						t.Errorf("the panic became %v", got)
					}
				}()
				_, _ = cron(t, g.locker(t), o).Run(ctx, "report", at, func(context.Context) error { panic("oh") })
			}()
			late := cron(t, g.locker(t), o)
			if ran, err := late.Run(ctx, "report", at, func(context.Context) error { return nil }); ran || err != nil {
				t.Errorf("the fire that panicked: ran %v, %v; want it done", ran, err)
			}
			if ran, err := late.Run(ctx, "report", at.Add(time.Minute), func(context.Context) error { return nil }); !ran || err != nil {
				t.Errorf("the next fire: ran %v, %v; want that the lock of the job is free", ran, err)
			}
		})
	}
}

func TestCron_Run_storeFails(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, at := context.Background(), time.Now()
		c := cron(t, g.locker(t), nil)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if strings.HasPrefix(r.Key, "~once/") {
					return next(ctx, r)
				}
				return driver.Result{}, driver.ErrUnavailable
			}
		})
		ran, err := c.Run(ctx, "report", at, func(context.Context) error { return nil })
		wants(t, err, distlock.ErrUnavailable)
		if ran {
			t.Error("it ran")
		}
		g.mend()
		if ran, err := c.Run(ctx, "report", at, func(context.Context) error { return nil }); !ran || err != nil {
			t.Errorf("it was remembered though it did not run: %v, %v", ran, err)
		}
		g.freeze()
		if ran, err := c.Run(ctx, "report", at, func(context.Context) error { return nil }); ran || err == nil {
			t.Errorf("a store that does not answer: %v, %v", ran, err)
		}
		g.mend()
	})
}

// A job that returns the ErrNotAcquired of an inner job has run.
func TestCron_Run_nested(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, at := context.Background(), time.Now()
		c := cron(t, g.locker(t), nil)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if r.Key == "part" {
					return driver.Result{}, driver.ErrUnavailable
				}
				return next(ctx, r)
			}
		})
		job := func(ctx context.Context) error {
			_, err := c.Run(ctx, "part", at, func(context.Context) error { return nil })
			return err
		}
		ran, err := c.Run(ctx, "report", at, job)
		wants(t, err, distlock.ErrUnavailable)
		if !ran {
			t.Error("it did not run")
		}
		if ran, err := c.Run(ctx, "report", at, job); ran || err != nil {
			t.Errorf("the same fire: ran %v, %v; want it done", ran, err)
		}
	})
}

func TestLocker_Cron_refuses(t *testing.T) {
	g := newGate()
	g.features = func(f *driver.Features) { f.Keep = false }
	_, err := g.locker(t).Cron(nil)
	wants(t, err, errors.ErrUnsupported)
	_, err = newGate().locker(t).Cron(&distlock.CronOptions{Keep: -1})
	wantInvalid(t, err, "keep")
	_, err = cron(t, newGate().locker(t), nil).Run(context.Background(), "", time.Now(), func(context.Context) error { return nil })
	wantInvalid(t, err, "name")
}

// The limit for the length of a name does not depend on the text form of its fire.
func TestCron_Run_name(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		c := cron(t, l, nil)
		for _, fire := range []time.Time{time.Unix(1, 0), time.Unix(1, 123456789)} {
			ran, err := c.Run(t.Context(), strings.Repeat("x", 224), fire, func(context.Context) error { return nil })
			if err != nil || !ran {
				t.Errorf("224 bytes: %t, %v", ran, err)
			}
			_, err = c.Run(t.Context(), strings.Repeat("x", 225), fire, func(context.Context) error { return nil })
			wantInvalid(t, err, "name")
		}
	})
}
