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

func TestLease_Downgrade(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		ctx := t.Context()
		writer := must(t)(a.Lock(ctx, "x"))
		far := begin(ctx, b.RLock, "x").waits(t)
		near := begin(ctx, a.RLock, "x").waits(t)
		work := writer.Context(ctx)

		reader := must(t)(writer.Downgrade(ctx))
		wants(t, writer.Err(), distlock.ErrReleased)
		wants(t, context.Cause(work), distlock.ErrReleased)
		if reader.Mode() != distlock.ModeShared || reader.Fence() != writer.Fence() {
			t.Errorf("mode %v, fence %d after %d", reader.Mode(), reader.Fence(), writer.Fence())
		}
		readers := []*distlock.Lease{far.now(t), near.now(t)}
		_, err := b.TryLock(ctx, "x")
		wants(t, err, distlock.ErrHeld)

		time.Sleep(time.Minute) // it is renewed
		if err := reader.Err(); err != nil {
			t.Error(err)
		}
		if err := writer.Unlock(ctx); err != nil {
			t.Errorf("Unlock of a lease that was handed off: %v", err)
		}
		free(t, reader)
		for _, r := range readers {
			free(t, r)
		}
		g.empty(t, a, b)
	})
}

func TestLease_Downgrade_noGap(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		ctx := t.Context()
		writer := must(t)(a.Lock(ctx, "x"))
		next := begin(ctx, b.Lock, "x").waits(t)
		reader := must(t)(writer.Downgrade(ctx))
		late := begin(ctx, b.RLock, "x").waits(t) // behind the writer
		next.waits(t)
		free(t, reader)
		free(t, next.now(t))
		free(t, late.now(t))
		g.empty(t, a, b)
	})
}

func TestLease_Downgrade_endsTheWorkFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		writer := must(t)(l.Lock(t.Context(), "x"))
		work := writer.Context(t.Context())
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if work.Err() == nil || writer.Err() == nil {
					t.Error("a call of the store while the writer may still write")
				}
				return next(ctx, r)
			}
		})
		free(t, must(t)(writer.Downgrade(t.Context())))
	})
}

func TestLease_Downgrade_answerLost(t *testing.T) {
	tests := []struct {
		name string
		lost int // the number of answers
		want error
	}{
		{"one", 1, nil},
		{"two", 2, distlock.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				writer := must(t)(l.Lock(t.Context(), "x"))
				g.set(func(g *gate) {
					lost := 0
					g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
						res, err := next(ctx, r)
						if lost++; lost <= tt.lost {
							return driver.Result{}, errCut
						}
						return res, err
					}
				})
				reader, err := writer.Downgrade(t.Context())
				g.mend()
				if tt.want == nil {
					free(t, must(t)(reader, err))
				} else {
					wants(t, err, tt.want, errCut)
					if reader != nil {
						t.Error("a lease came with the error")
					}
				}
				g.empty(t, l)
			})
		})
	}
}

func TestLease_Downgrade_lost(t *testing.T) {
	tests := []struct {
		name string
		lose func(g *gate)
	}{
		{"broken before", func(g *gate) { _, _ = g.Break(context.Background(), "x", 0, "test") }},
		{"ended before", func(*gate) { time.Sleep(time.Minute) }},
		{"ended meanwhile", func(g *gate) {
			time.Sleep(8500 * time.Millisecond)
			g.set(func(g *gate) {
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					time.Sleep(time.Second) // the claim continues, its trust has ended
					return next(ctx, r)
				}
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				var events order
				writer := must(t)(l.Lock(t.Context(), "x", distlock.TTL(10*time.Second), distlock.NoRenewal(), distlock.Observe(func(_ context.Context, e distlock.Event) {
					if e.Type != distlock.EventAttempted && e.Type != distlock.EventWithdrawn {
						events.add("%v", e.Type)
					}
				})))
				tt.lose(g)
				reader, err := writer.Downgrade(t.Context())
				g.mend()
				wants(t, err, distlock.ErrLost)
				if reader != nil {
					t.Error("a lease came with the error")
				}
				g.empty(t, l)
				if got := events.String(); got != "granted lost" && got != "granted handed_off granted lost" {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// The answer comes after the end of the trust. The claim has a new TTL by then, and has to be
// released.
func TestLease_Downgrade_lostAndNotReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		writer := must(t)(l.Lock(t.Context(), "x", distlock.TTL(time.Second), distlock.NoRenewal()))
		time.Sleep(300 * time.Millisecond)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				defer time.Sleep(700 * time.Millisecond)
				return next(ctx, r)
			}
			g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		})
		_, err := writer.Downgrade(t.Context())
		g.mend()
		g.expect(t, 1, 0)
		wants(t, err, distlock.ErrLost, distlock.ErrUnknown, errCut)
	})
}

// A lingering is a context that never ends, and that is slow to detach a child.
type lingering struct {
	context.Context
	done  chan struct{}
	letGo func()
}

func (l lingering) Done() <-chan struct{} { return l.done }

func (l lingering) AfterFunc(func()) (stop func() bool) {
	return func() bool { l.letGo(); return true }
}

// Close releases the writer's lease. Afterwards there must be no reader's lease instead of it.
func TestLease_Downgrade_closedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l, ctx := g.locker(t), t.Context()
		writer := must(t)(l.Lock(ctx, "x"))
		closed := make(chan error, 1)
		writer.Context(lingering{ctx, make(chan struct{}), func() { // the writer's work is cancelled
			go func() { closed <- l.Close(context.Background()) }()
			synctest.Wait()
		}})
		reader, err := writer.Downgrade(ctx)
		wants(t, err, distlock.ErrClosed)
		if reader != nil {
			t.Error("a lease came with the error")
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
		g.empty(t, l)
	})
}

// A lease that ReleaseAll releases during the downgrade is released, not lost.
func TestLease_Downgrade_releasedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		for range 30 { // either of the two may reach the store first
			g.set(func(g *gate) { g.acquire = nil })
			writer := must(t)(l.Lock(t.Context(), "x"))
			g.set(func(g *gate) {
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					time.Sleep(time.Second)
					return next(context.WithoutCancel(ctx), r)
				}
			})
			lowered := make(chan error, 1)
			go func() {
				_, err := writer.Downgrade(t.Context())
				lowered <- err
			}()
			synctest.Wait()
			if err := l.ReleaseAll(t.Context()); err != nil {
				t.Errorf("ReleaseAll: %v", err)
			}
			wants(t, <-lowered, distlock.ErrReleased)
		}
		g.empty(t, l)
	})
}

func TestLease_Downgrade_refused(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		ctx := t.Context()
		reader := must(t)(l.RLock(ctx, "x"))
		_, err := reader.Downgrade(ctx)
		wants(t, err, distlock.ErrInvalid)
		if reader.Err() != nil {
			t.Error("the lease has ended")
		}
		free(t, reader)

		writer := must(t)(l.Lock(ctx, "x"))
		ended, cancel := context.WithCancelCause(ctx)
		why := errors.New("why")
		cancel(why)
		_, err = writer.Downgrade(ended)
		wants(t, err, why)
		var none context.Context
		_, err = writer.Downgrade(none)
		wants(t, err, distlock.ErrInvalid)
		free(t, must(t)(writer.Downgrade(ctx)))
		_, err = writer.Downgrade(ctx)
		wants(t, err, distlock.ErrReleased)
		g.empty(t, l)
	})
}

func TestLease_Downgrade_unlockedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		for range 50 {
			writer := must(t)(l.Lock(t.Context(), "x"))
			unlocked := make(chan error)
			go func() { unlocked <- writer.Unlock(t.Context()) }()
			reader, err := writer.Downgrade(t.Context())
			if e := <-unlocked; e != nil {
				t.Errorf("Unlock: %v", e)
			}
			if err == nil {
				free(t, reader)
			} else {
				wants(t, err, distlock.ErrReleased)
			}
		}
		g.empty(t, l)
	})
}

func TestLocker_Lock_upgrade(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a call that waits for itself would fail then
		defer cancel()
		x := must(t)(a.RLock(ctx, "x"))
		y := must(t)(a.RLock(x.Context(ctx), "y"))
		inner := y.Context(x.Context(ctx))
		g.reset()
		for _, lock := range []takeFunc{a.Lock, a.TryLock} {
			for _, name := range []string{"x", "y"} {
				_, err := lock(inner, name)
				wants(t, err, distlock.ErrUpgrade)
			}
		}
		if n := g.count("acquire"); n != 0 {
			t.Errorf("the store was called %d times", n)
		}
		free(t, must(t)(a.RLock(inner, "x")))
		free(t, must(t)(a.Lock(inner, "z")))
		_, err := b.TryLock(inner, "x") // another Locker may be on another store
		wants(t, err, distlock.ErrHeld)
		free(t, y)
		free(t, x)
		synctest.Wait()
		free(t, must(t)(a.Lock(ctx, "x")))
		g.empty(t, a, b)
	})
}

// A reader whose renewal succeeds only at the last moment keeps a writer out for as long as it
// reads.
func TestLocker_RLock_renewedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		const ttl = 3 * time.Second
		a, b := g.locker(t, distlock.TTL(ttl)), g.locker(t)
		reader := must(t)(a.RLock(t.Context(), "k"))
		writer := begin(t.Context(), b.Lock, "k").waits(t)
		g.set(func(g *gate) {
			g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, driver.ErrUnavailable }
		})
		time.Sleep(ttl * 5 / 6) // it is trusted for nine tenths
		g.mend()
		time.Sleep(5 * ttl)
		if err := reader.Err(); err != nil {
			t.Fatal(err)
		}
		writer.waits(t)
		free(t, reader)
		free(t, writer.now(t))
		g.empty(t, a, b)
	})
}

// An Extend that is under way must not leave the claim a shorter TTL than the reader trusts.
func TestLease_Downgrade_crossesExtend(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a := g.locker(t, distlock.TTL(3*time.Second))
		b, err := distlock.New(g.Store) // its store stays reachable
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		writer := must(t)(a.Lock(t.Context(), "k"))
		g.set(func(g *gate) {
			g.renew = func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error) {
				time.Sleep(10 * time.Millisecond)
				return next(ctx, r)
			}
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				time.Sleep(50 * time.Millisecond)
				return next(ctx, r)
			}
		})
		extended := make(chan error, 1)
		go func() { extended <- writer.Extend(context.Background(), time.Minute) }()
		synctest.Wait()
		reader := must(t)(writer.Downgrade(t.Context()))
		<-extended
		g.freeze()
		for reader.Valid(0) {
			if next, err := b.TryLock(t.Context(), "k"); err == nil {
				t.Errorf("a reader is trusted for another %v at the same time as a writer", time.Until(reader.Until()))
				free(t, next)
				break
			}
			time.Sleep(time.Second)
		}
		g.mend()
	})
}

// A downgrade that hangs leaves time for another attempt.
func TestLease_Downgrade_hangsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(3*time.Second))
		writer := must(t)(l.Lock(t.Context(), "k"))
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
				g.mend()
				<-ctx.Done()
				return driver.Result{}, ctx.Err()
			}
		})
		free(t, must(t)(writer.Downgrade(t.Context())))
		g.empty(t, l)
	})
}
