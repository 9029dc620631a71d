package distlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

// A pushTest is a test with two processes on a store that pushes grants.
type pushTest struct {
	first  *distlock.Lease // the first process holds the key
	second *call           // the second process waits for it
	link   *chaos.Store    // from the second process to the store
	seen   *tape           // events of the second process
}

// pushed runs a pushTest. The options are those of the second process.
func pushed(t *testing.T, opts []distlock.Option, play func(t *testing.T, p *pushTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := chaos.HandOff(mem.New())
		link := chaos.New(store, &chaos.Options{Name: "second", Timeout: time.Minute})
		t.Cleanup(link.Close)
		seen := &tape{}
		a, b := lockerOn(t, store), lockerOn(t, link, append(opts, distlock.Observe(seen.observe))...)
		first := must(t)(a.Lock(t.Context(), "k"))
		play(t, &pushTest{first, begin(t.Context(), b.Lock, "k").waits(t), link, seen})
	})
}

// A waiter with a pushed grant makes no further attempt. Its first renewal turns the provisional
// claim into a full lease, if the lease is kept that long.
func TestLocker_Lock_pushed(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		attempts := len(p.seen.all(distlock.EventAttempted))
		free(t, p.first)
		lease := p.second.now(t)
		if n := len(p.seen.all(distlock.EventAttempted)) - attempts; n != 0 {
			t.Errorf("%d attempts after the pushed grant", n)
		}
		if lease.Fence() <= p.first.Fence() {
			t.Errorf("fence %d after %d", lease.Fence(), p.first.Fence())
		}
		if left := time.Until(lease.Until()); left > 3*time.Second {
			t.Errorf("trusted for %v, with a queue entry of 3s", left)
		}
		time.Sleep(30 * time.Millisecond)
		if left := time.Until(lease.Until()); len(p.seen.all(distlock.EventRenewed)) != 1 || left < 25*time.Second {
			t.Errorf("%d renewals, trusted for %v: want one, and a full lease", len(p.seen.all(distlock.EventRenewed)), left)
		}
		free(t, lease)
	})
}

// A lease that is released at once costs no renewal.
func TestLocker_Lock_pushedAndBrief(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		free(t, p.first)
		free(t, p.second.now(t))
		time.Sleep(time.Minute)
		if n := len(p.seen.all(distlock.EventRenewed)); n != 0 {
			t.Errorf("%d renewals of a lease that was released", n)
		}
	})
}

// Ensure confirms a pushed grant if the wanted time is longer than the queue entry lasts.
func TestLease_Ensure_pushed(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		free(t, p.first)
		lease := p.second.now(t)
		if !lease.Valid(time.Second) || lease.Ensure(t.Context(), 20*time.Second) != nil {
			t.Error("not valid for a time that its TTL allows")
		}
		if lease.Ensure(t.Context(), time.Minute) == nil {
			t.Error("valid for longer than its TTL")
		}
		free(t, lease)
	})
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		free(t, p.first)
		lease := p.second.now(t)
		p.link.Freeze()
		if !lease.Valid(time.Second) || lease.Ensure(t.Context(), 20*time.Second) == nil {
			t.Error("valid for longer or shorter than the store has confirmed")
		}
		p.link.Thaw()
		_ = lease.Unlock(t.Context())
	})
}

// A queue entry may last as long as a TTL.
func TestLease_Ensure_pushedToLongEntry(t *testing.T) {
	opts := []distlock.Option{distlock.Backoff(time.Second, 10*time.Second)} // an entry of 30 s, as long as the TTL
	pushed(t, opts, func(t *testing.T, p *pushTest) {
		time.Sleep(4 * time.Second)
		free(t, p.first)
		lease := p.second.now(t)
		if lease.Ensure(t.Context(), 28*time.Second) != nil {
			t.Errorf("%v left, and not renewed", time.Until(lease.Until()))
		}
		free(t, lease)
	})
}

// A renewal that Ensure requests and the store does not answer leaves time for another one.
func TestLease_Ensure_pushedAndNotRenewed(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		p.link.Next(chaos.Renew, chaos.Action{Kind: chaos.RequestLost})
		free(t, p.first)
		lease := p.second.now(t)
		if lease.Ensure(t.Context(), 20*time.Second) == nil {
			t.Error("valid for longer than the store has confirmed")
		}
		time.Sleep(20 * time.Second)
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		free(t, lease)
	})
}

// A renewal that Ensure requests does not undo an Extend that is under way.
func TestLease_Ensure_pushedAndExtended(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		free(t, p.first)
		lease := p.second.now(t)
		p.link.Next(chaos.Renew, chaos.Action{Kind: chaos.ReplyLate, For: 500 * time.Millisecond})
		done := make(chan error, 1)
		go func() { done <- lease.Extend(t.Context(), time.Hour) }()
		synctest.Wait()
		if lease.Ensure(t.Context(), 20*time.Second) != nil {
			t.Error("not valid for a time that its TTL allows")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if left := time.Until(lease.Until()); left < 50*time.Minute {
			t.Errorf("trusted for %v after it was extended by an hour", left)
		}
		free(t, lease)
	})
}

// A handle is valid for a TTL, not only until the queue entry expires.
func TestLease_Detach_pushed(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		free(t, p.first)
		lease := p.second.now(t)
		p.link.Freeze()
		_, err := lease.Detach(t.Context())
		wants(t, err, distlock.ErrUnknown)
		p.link.Thaw()
		if err := lease.Err(); err != nil {
			t.Fatalf("the lease has changed: %v", err)
		}
		h, err := lease.Detach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(h.TTL() - time.Second)
		free(t, must(t)(lockerOn(t, p.link).Attach(t.Context(), h)))
	})
}

// A first renewal that the store does not answer leaves time for another one.
func TestLocker_Lock_pushedAndNotRenewed(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		p.link.Next(chaos.Renew, chaos.Action{Kind: chaos.RequestLost})
		free(t, p.first)
		lease := p.second.now(t)
		time.Sleep(20 * time.Second)
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		free(t, lease)
	})
}

// Trust counts from the attempt that last renewed the queue entry, not from the message.
func TestLocker_Lock_pushedLate(t *testing.T) {
	pushed(t, nil, func(t *testing.T, p *pushTest) {
		attempted := time.Now() // the waiter has just renewed its entry, for 3 s
		time.Sleep(400 * time.Millisecond)
		free(t, p.first)
		lease := p.second.now(t)
		p.link.Freeze() // no renewal arrives
		<-lease.Done()
		if d := time.Since(attempted); d >= 3*time.Second {
			t.Errorf("trusted until %v after the attempt, with an entry of 3s", d)
		}
		p.link.Thaw()
	})
}

// A claim that needs its whole TTL in the store is acquired by an attempt: a pushed grant has only
// the rest of the queue entry.
func TestLocker_Lock_pushedButAttempted(t *testing.T) {
	for name, opt := range map[string]distlock.Option{
		"fixed": distlock.NoRenewal(), "lock delay": distlock.LockDelay(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			pushed(t, []distlock.Option{opt}, func(t *testing.T, p *pushTest) {
				attempts := len(p.seen.all(distlock.EventAttempted))
				free(t, p.first)
				lease := p.second.now(t)
				if n := len(p.seen.all(distlock.EventAttempted)) - attempts; n != 1 || time.Until(lease.Until()) < 25*time.Second {
					t.Errorf("%d attempts, trusted until %v: want one attempt and a full lease", n, lease.Until())
				}
				free(t, lease)
			})
		})
	}
}

// A message about an earlier queue entry, or about a claim that has ended, is no grant.
func TestLocker_Lock_pushedStale(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		wake := make(chan driver.Wake, 1)
		g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return wake }
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		c := begin(t.Context(), b.Lock, "k").waits(t)

		wake <- driver.Wake{Granted: true, Fence: first.Fence() - driver.Span}
		c.waits(t) // its fence is below the holder's

		g.set(func(g *gate) {
			g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
				return driver.Result{}, driver.ErrUnavailable
			}
		})
		time.Sleep(4 * time.Second) // the entry expires
		g.set(func(g *gate) { g.acquire = nil })
		time.Sleep(2 * time.Second) // there is a new entry
		g.expect(t, 1, 1)
		wake <- driver.Wake{Granted: true, Fence: first.Fence() + driver.Span}
		c.waits(t) // the message may be about the first entry

		free(t, first)
		wake <- driver.Wake{}
		free(t, c.now(t))
	})
}

// An attempt without an answer created a queue entry, and the entry expired, before the first
// answer that the waiter gets. A message about that entry is no grant.
func TestLocker_Lock_pushedToUnseenEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		wake := make(chan driver.Wake, 1)
		g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return wake }
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if r.QueueTTL > 0 {
					_, _ = next(ctx, r)
					return driver.Result{}, errCut
				}
				return next(ctx, r)
			}
		})
		c := begin(t.Context(), b.Lock, "k").waits(t)
		g.set(func(g *gate) {
			g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
				return driver.Result{}, driver.ErrUnavailable
			}
		})
		time.Sleep(4 * time.Second)
		g.set(func(g *gate) { g.acquire = nil })
		time.Sleep(2 * time.Second)
		g.expect(t, 1, 1)
		wake <- driver.Wake{Granted: true, Fence: first.Fence() + driver.Span}
		c.waits(t)
		free(t, first)
		wake <- driver.Wake{}
		free(t, c.now(t))
	})
}

// A reader does not get a claim that the store pushed before the reader came: claims with higher
// fences may have come and gone since.
func TestTenure_readerInheritsNoPushedGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		wake := make(chan driver.Wake, 1)
		g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return wake }
		var entry driver.Request
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if r.QueueTTL > 0 {
				entry = r
			}
			return next(ctx, r)
		}
		a, b := g.locker(t), g.locker(t)
		writer := must(t)(a.Lock(t.Context(), "k"))
		ctx, leave := context.WithCancel(t.Context())
		early := begin(ctx, b.RLock, "k").waits(t)
		free(t, writer)
		entry.QueueTTL = 0
		// A store that pushes grants does the same.
		if res, err := g.Store.Acquire(t.Context(), entry); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		other := must(t)(a.RLock(t.Context(), "k"))
		free(t, other)
		late := begin(t.Context(), b.RLock, "k").waits(t)
		leave()
		early.refused(t, context.Canceled)
		wake <- driver.Wake{}
		lease := late.granted(t)
		if lease.Fence() <= other.Fence() {
			t.Errorf("fence %d, after a reader with %d had come and gone", lease.Fence(), other.Fence())
		}
		free(t, lease)
	})
}

// Lock returns a store's error of the first attempt, also for a key that was refused a moment ago.
// If the outcome is unknown, it attempts once more before.
func TestLocker_Lock_firstAttemptOfContendedName(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		attempts int
	}{{"unavailable", driver.ErrUnavailable, 1}, {"invalid", driver.ErrInvalid, 1}, {"unknown", errCut, 2}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t), g.locker(t)
				lease := must(t)(a.Lock(t.Context(), "k"))
				begin(t.Context(), b.Lock, "k", distlock.MaxWait(100*time.Millisecond)).refused(t, distlock.ErrHeld)
				g.set(func(g *gate) {
					g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
						return driver.Result{}, c.err
					}
				})
				g.reset()
				one := begin(t.Context(), b.Lock, "k")
				one.within(t, 0, 2*time.Second)
				if one.err == nil || errors.Is(one.err, distlock.ErrUnknown) || g.count("acquire") != c.attempts {
					t.Errorf("%v after %d attempts, want an error after %d", one.err, g.count("acquire"), c.attempts)
				}
				g.set(func(g *gate) { g.acquire = nil })
				free(t, lease)
				g.empty(t, a, b)
			})
		})
	}
}
