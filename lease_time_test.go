package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

func TestLease_Extend(t *testing.T) {
	t.Run("longer and shorter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.TTL(10*time.Second), distlock.NoRenewal()), "x")
			for _, d := range []time.Duration{time.Hour, time.Second, time.Minute} {
				if err := lease.Extend(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				if left := time.Until(lease.Until()); left != trustOf(d) {
					t.Errorf("%v left after Extend(%v)", left, d)
				}
				if !lease.Valid(trustOf(d)-1) || lease.Valid(trustOf(d)) {
					t.Errorf("Valid is wrong after Extend(%v)", d)
				}
				claims, _ := w.Store.Show(t.Context(), "x")
				if len(claims) != 1 || claims[0].Left != d {
					t.Errorf("the store has %+v after Extend(%v)", claims, d)
				}
			}
		})
	})
	t.Run("is the TTL from then on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.TTL(time.Second)), "x")
			if err := lease.Extend(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			n := w.count("renew")
			time.Sleep(24 * time.Hour)
			if got := w.count("renew") - n; got < 60 || got > 90 {
				t.Errorf("%d renewals a day", got)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("refused without a call of the store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newGate(), &tape{}
			w.features = func(f *driver.Features) { f.MinTTL, f.MaxTTL = time.Second, time.Minute }
			lease := taken(t, lockerOn(t, w, distlock.LockDelay(10*time.Second), distlock.Observe(p.observe)), "x")
			left := lease.Until()
			for _, d := range []time.Duration{-1, 0, 1, 99 * time.Millisecond, 999 * time.Millisecond, 51 * time.Second, time.Hour, 25 * time.Hour, 1<<63 - 1} {
				wantInvalid(t, lease.Extend(t.Context(), d), "TTL")
			}
			wants(t, lease.Extend(noContext, time.Minute), distlock.ErrInvalid)
			dead, cancel := context.WithCancel(t.Context())
			cancel()
			wants(t, lease.Extend(dead, 2*time.Second), context.Canceled)
			if n := w.count("renew"); n != 0 || !lease.Until().Equal(left) {
				t.Errorf("%d renewals, until %v", n, lease.Until())
			}
			wantStory(t, p, distlock.EventGranted)
		})
	})
	t.Run("of unknown outcome shortens the trust", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			w.deafen("renew")
			err := lease.Extend(t.Context(), time.Second)
			wants(t, err, distlock.ErrUnknown)
			if left := time.Until(lease.Until()); left != trustOf(time.Second) {
				t.Errorf("%v left", left)
			}
			<-lease.Done()
			wants(t, lease.Extend(t.Context(), time.Second), distlock.ErrLost)
		})
	})
	t.Run("of unknown outcome does not lengthen it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			w.deafen("renew")
			wants(t, lease.Extend(t.Context(), time.Hour), distlock.ErrUnknown)
			if left := time.Until(lease.Until()); left != trustOf(30*time.Second) {
				t.Errorf("%v left", left)
			}
		})
	})
	t.Run("ends with its context and within the trust", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.TTL(2*time.Second), distlock.NoRenewal()), "x")
			w.freeze()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			wants(t, lease.Extend(ctx, time.Minute), distlock.ErrUnknown, context.DeadlineExceeded)
			if took := time.Since(begin); took != time.Second {
				t.Errorf("it took %v", took)
			}
			wants(t, lease.Extend(t.Context(), time.Minute), distlock.ErrLost)
			if took := time.Since(begin); took != trustOf(2*time.Second) {
				t.Errorf("it took %v", took)
			}
			w.mend()
		})
	})
	t.Run("takes at most 5 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.TTL(time.Minute), distlock.NoRenewal()), "x")
			w.freeze()
			begin := time.Now()
			wants(t, lease.Extend(t.Context(), time.Minute), distlock.ErrUnknown)
			if took := time.Since(begin); took != 5*time.Second {
				t.Errorf("it took %v", took)
			}
			w.mend()
		})
	})
	t.Run("after the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w), "x")
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			wants(t, lease.Extend(t.Context(), time.Minute), distlock.ErrReleased)
			if n := w.count("renew"); n != 0 {
				t.Errorf("%d renewals", n)
			}
		})
	})
	t.Run("does not reach a lease that has been handed off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate())
			lease := taken(t, l, "x")
			next := make(chan *distlock.Lease, 1)
			go func() {
				lease, err := l.Lock(t.Context(), "x")
				if err != nil {
					t.Error(err)
				}
				next <- lease
			}()
			synctest.Wait()
			// Extend looks at the context between its checks and the call: Unlock runs at this
			// moment.
			hop := &hopContext{Context: t.Context(), hop: func() { _ = lease.Unlock(t.Context()) }}
			wants(t, lease.Extend(hop, 100*time.Millisecond), distlock.ErrReleased)
			if left := time.Until((<-next).Until()); left < time.Second {
				t.Errorf("the next holder has %v left", left)
			}
		})
	})
	t.Run("keeps the lease from being handed off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newGate(), &tape{}
			l := lockerOn(t, w, distlock.Observe(p.observe))
			lease := taken(t, l, "x")
			next := make(chan *distlock.Lease, 1)
			go func() {
				lease, _ := l.Lock(t.Context(), "x")
				next <- lease
			}()
			synctest.Wait()
			if err := lease.Extend(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := time.Until((<-next).Until()); left > 30*time.Second {
				t.Errorf("the next holder has %v left, more than its TTL", left)
			}
		})
	})
}

// A hopContext runs a function once, when Err is called.
type hopContext struct {
	context.Context
	once sync.Once
	hop  func()
}

func (c *hopContext) Err() error {
	c.once.Do(c.hop)
	return c.Context.Err()
}

func TestLease_fixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		lease := taken(t, lockerOn(t, w, distlock.NoRenewal(), distlock.TTL(10*time.Second)), "x")
		for range 10 {
			time.Sleep(5 * time.Second)
			if err := lease.Extend(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		<-lease.Done()
		if got := time.Since(begin); got != trustOf(10*time.Second) {
			t.Errorf("lost after %v", got)
		}
		wantLoss(t, lease.Err(), distlock.LossExpired)
		if n := w.count("renew"); n != 10 {
			t.Errorf("%d renewals, want those of Extend", n)
		}
	})
}

// Ensure renews a lease only if it has too little trust left.
func TestLease_Ensure(t *testing.T) {
	const ttl = 30 * time.Second
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(ttl), distlock.NoRenewal())
		lease := must(t)(l.Lock(t.Context(), "k"))
		ensure := func(d time.Duration, renewals int, want error) {
			t.Helper()
			g.reset()
			if err := lease.Ensure(t.Context(), d); !errors.Is(err, want) {
				t.Errorf("Ensure(%v): %v, want %v", d, err, want)
			}
			if n := g.count("renew"); n != renewals {
				t.Errorf("Ensure(%v): %d renewals, want %d", d, n, renewals)
			}
			if held := want == nil; held && !lease.Valid(d) {
				t.Errorf("not valid for %v after Ensure", d)
			}
		}
		ensure(20*time.Second, 0, nil)
		time.Sleep(15 * time.Second)
		if lease.Valid(20 * time.Second) {
			t.Error("Valid reports more time than is left, or has renewed")
		}
		ensure(10*time.Second, 0, nil)
		ensure(20*time.Second, 1, nil)
		ensure(ttl, 0, distlock.ErrInvalid)

		// If the store cannot be reached, the lease is held for the rest of its trust.
		time.Sleep(15 * time.Second)
		g.set(func(g *gate) {
			g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, driver.ErrUnavailable }
		})
		ensure(20*time.Second, 1, distlock.ErrUnavailable)
		if !lease.Valid(10 * time.Second) {
			t.Error("the lease is not held any more")
		}
		g.mend()
		free(t, lease)
		ensure(0, 0, distlock.ErrReleased)

		bounded := must(t)(l.Lock(t.Context(), "m", distlock.MaxHold(10*time.Second)))
		if err := bounded.Ensure(t.Context(), 20*time.Second); !errors.Is(err, distlock.ErrMaxHold) {
			t.Errorf("past MaxHold: %v", err)
		}
		free(t, bounded)
		g.empty(t, l)
	})
}

func TestLease_maxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.TTL(10*time.Second))
		begin := time.Now()
		lease := taken(t, l, "x", distlock.MaxHold(time.Minute))
		ctx := lease.Context(t.Context())
		<-ctx.Done()
		if got := time.Since(begin); got != time.Minute {
			t.Errorf("ended after %v", got)
		}
		wants(t, context.Cause(ctx), distlock.ErrMaxHold, distlock.ErrLost)
		wantLoss(t, lease.Err(), distlock.LossMaxHold)
		n := w.count("renew")
		wants(t, lease.Unlock(t.Context()), distlock.ErrMaxHold)
		if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("free at once: %v", err) // the work may still run: the claim must expire
		}
		time.Sleep(10 * time.Second)
		taken(t, l, "x")
		if got := w.count("renew"); got != n || w.count("release") != 0 {
			t.Errorf("%d renewals after the end, %d releases", got-n, w.count("release"))
		}
	})
}

func TestLease_maxHold_isNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := taken(t, lockerOn(t, newGate()), "x", distlock.MaxHold(time.Minute))
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(lease.Until()); left != time.Minute {
			t.Errorf("%v left", left)
		}
	})
}

func TestLease_minHold(t *testing.T) {
	t.Run("an early Unlock keeps the key for the rest", func(t *testing.T) {
		for _, minHold := range []time.Duration{10 * time.Second, time.Hour} { // below and above the TTL
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				l, other := lockerOn(t, w), lockerOn(t, w)
				begin := time.Now()
				lease := taken(t, l, "x", distlock.MinHold(minHold))
				time.Sleep(time.Second)
				if err := lease.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				wants(t, lease.Err(), distlock.ErrReleased)
				if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
					t.Errorf("free at once: %v", err)
				}
				if _, err := other.Lock(t.Context(), "x"); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begin); got < minHold || got > minHold+10*time.Millisecond {
					t.Errorf("free after %v, want %v", got, minHold)
				}
				if n := w.count("release"); n != 0 {
					t.Errorf("%d releases", n)
				}
			})
		}
	})
	t.Run("a late Unlock frees at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate(), distlock.MinHold(time.Minute))
			lease := taken(t, l, "x")
			time.Sleep(time.Minute)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			taken(t, l, "x")
		})
	})
	t.Run("a loss is a loss", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.MinHold(time.Minute)), "x")
			_, _ = driver.Break(t.Context(), w, "x", 0, "no more")
			wantLoss(t, lease.Unlock(t.Context()), distlock.LossBroken)
		})
	})
}

func TestLease_lockDelay(t *testing.T) {
	t.Run("a clean release frees at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate(), distlock.LockDelay(time.Minute))
			if err := taken(t, l, "x").Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			taken(t, l, "x")
		})
	})
	t.Run("after a loss the key stays closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l, other := lockerOn(t, w, distlock.LockDelay(time.Minute), distlock.TTL(10*time.Second)), lockerOn(t, w.Store)
			begin := time.Now()
			lease := taken(t, l, "x")
			w.cut()
			<-lease.Done()
			if got := time.Since(begin); got != trustOf(10*time.Second) {
				t.Errorf("lost after %v", got)
			}
			wants(t, lease.Unlock(t.Context()), distlock.ErrLost)
			if _, err := other.Lock(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got < 70*time.Second || got > 71*time.Second {
				t.Errorf("free after %v, want 1m10s", got)
			}
		})
	})
	t.Run("is kept by renewals and by Extend", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.LockDelay(time.Minute)), "x")
			time.Sleep(time.Hour)
			if err := lease.Extend(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) != 1 || claims[0].Left != 70*time.Second {
				t.Errorf("the store has %+v", claims)
			}
		})
	})
}

// fast is a store whose clock runs one per cent faster than the clocks of its clients.
type fast struct{ *mem.Store }

func (f fast) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	r.TTL = r.TTL * 100 / 101
	return f.Store.Acquire(ctx, r)
}

func (f fast) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	r.TTL = r.TTL * 100 / 101
	return f.Store.Renew(ctx, r)
}

func (f fast) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = f.Renew(ctx, r)
	}
	return out
}

// at returns a Locker on a store.
func at(t *testing.T, store driver.Store, ttl time.Duration) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(store, distlock.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A holder that is cut off stops before a rival begins, although the clock of the store is faster.
func TestLease_lost_beforeAFastStoreEndsIt(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second, 5 * time.Minute, time.Hour} {
		for _, renewals := range []time.Duration{0, 5} {
			synctest.Test(t, func(t *testing.T) {
				store := fast{mem.New()}
				link := chaos.New(store, nil)
				defer link.Close()
				holder, rival := at(t, link, ttl), at(t, store, ttl)
				lease := must(t)(holder.Lock(t.Context(), "key"))

				time.Sleep(renewals * ttl)
				if err := lease.Err(); err != nil {
					t.Fatalf("TTL %v: lost while it was renewed: %v", ttl, err)
				}
				link.Cut(chaos.All)
				next := must(t)(rival.Lock(t.Context(), "key"))
				select {
				case <-lease.Done():
				default:
					t.Errorf("TTL %v: two hold the lock, one of them until %v from now", ttl, time.Until(lease.Until()))
				}
				if !errors.Is(lease.Err(), distlock.ErrLost) {
					t.Errorf("TTL %v: the lease is %v", ttl, lease.Err())
				}
				free(t, next)
				link.Heal()
				_ = holder.Close(t.Context()) // its claim is gone
				_ = rival.Close(t.Context())
			})
		}
	}
}

func TestLease_Remaining(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		lease := must(t)(l.Lock(t.Context(), "x", distlock.TTL(10*time.Second), distlock.NoRenewal()))
		if got := lease.Remaining(); got != trustOf(10*time.Second) {
			t.Errorf("of a new lease: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := lease.Remaining(); got != trustOf(10*time.Second)-2*time.Second {
			t.Errorf("after 2 s: %v", got)
		}
		time.Sleep(10 * time.Second)
		if got := lease.Remaining(); got != 0 {
			t.Errorf("after its TTL: %v", got)
		}
		lease = must(t)(l.Lock(t.Context(), "x"))
		free(t, lease)
		if got := lease.Remaining(); got != 0 {
			t.Errorf("after Unlock: %v", got)
		}
		var none *distlock.Lease
		if got := none.Remaining(); got != 0 {
			t.Errorf("of the nil lease: %v", got)
		}
	})
}

func ExampleLease_Remaining() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	lease, _ := locker.Lock(ctx, "report")
	fmt.Println(lease.Remaining() > 20*time.Second) // the TTL of 30 s less a margin
	_ = lease.Unlock(ctx)
	fmt.Println(lease.Remaining())
	// Output:
	// true
	// 0s
}

func ExampleOnClose() {
	ctx := context.Background()
	store := mem.New()
	locker, _ := distlock.New(store, distlock.OnClose(func() { fmt.Println("the store is closed") }))
	_ = locker.Close(ctx)
	// Output: the store is closed
}

// TestLocker_Close_second shows that a second Close waits for the first, and no longer than its
// context.
func TestLocker_Close_second(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		closing := make(chan struct{})
		l := g.locker(t, distlock.OnClose(func() { <-closing }))
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- l.Close(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wants(t, l.Close(ctx), context.DeadlineExceeded)
		go func() { second <- l.Close(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-second:
			t.Errorf("the second Close did not wait: %v", err)
		default:
		}
		close(closing)
		if a, b := <-first, <-second; a != nil || b != nil {
			t.Errorf("Close: %v, %v", a, b)
		}
	})
}
