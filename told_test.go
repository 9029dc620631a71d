package distlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

// tally counts events.
type tally struct {
	mu   sync.Mutex
	seen map[distlock.EventType]int
}

func (c *tally) watch(_ context.Context, e distlock.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[distlock.EventType]int{}
	}
	c.seen[e.Type]++
}

func (c *tally) of(k distlock.EventType) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[k]
}

// told plays two processes on a store that hands a key on unasked. The first one holds the key and the second one
// waits for it, on a link of its own.
func told(t *testing.T, opts []distlock.Option, play func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, seen *tally)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := chaos.HandOff(mem.New())
		link := chaos.New(store, &chaos.Options{Name: "second", Timeout: time.Minute})
		defer link.Close()
		seen := &tally{}
		a, err := distlock.New(store)
		if err != nil {
			t.Fatal(err)
		}
		b, err := distlock.New(link, append(opts, distlock.Observe(seen.watch))...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = b.Close(context.Background()) }()
		defer func() { _ = a.Close(context.Background()) }()
		first := must(t)(a.Lock(t.Context(), "k"))
		play(t, first, begin(t.Context(), b.Lock, "k").waits(t), link, seen)
	})
}

// A waiter that is told of its grant asks no more, and makes the claim a full lease if it keeps it.
func TestLocker_Lock_told(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, _ *chaos.Store, seen *tally) {
		asks := seen.of(distlock.EventAttempted)
		free(t, first)
		lease := second.now(t)
		if n := seen.of(distlock.EventAttempted) - asks; n != 0 {
			t.Errorf("%d asks after the grant was told", n)
		}
		if lease.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", lease.Fence(), first.Fence())
		}
		if left := time.Until(lease.Until()); left > 3*time.Second {
			t.Errorf("trusted for %v, with a place of 3s", left)
		}
		time.Sleep(30 * time.Millisecond)
		if left := time.Until(lease.Until()); seen.of(distlock.EventRenewed) != 1 || left < 25*time.Second {
			t.Errorf("%d renewals, trusted for %v: want one, and a full lease", seen.of(distlock.EventRenewed), left)
		}
		free(t, lease)
	})
}

// One that is given back at once costs no renewal.
func TestLocker_Lock_toldAndBrief(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, _ *chaos.Store, seen *tally) {
		free(t, first)
		free(t, second.now(t))
		time.Sleep(time.Minute)
		if n := seen.of(distlock.EventRenewed); n != 0 {
			t.Errorf("%d renewals of a lease that was given back", n)
		}
	})
}

// Ensure can be asked for more than the rest of a place.
func TestLease_Ensure_told(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		free(t, first)
		lease := second.now(t)
		if !lease.Valid(time.Second) || lease.Ensure(t.Context(), 20*time.Second) != nil {
			t.Error("not valid for what its TTL allows")
		}
		if lease.Ensure(t.Context(), time.Minute) == nil {
			t.Error("valid for longer than its TTL")
		}
		free(t, lease)
	})
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		free(t, first)
		lease := second.now(t)
		link.Freeze()
		if !lease.Valid(time.Second) || lease.Ensure(t.Context(), 20*time.Second) == nil {
			t.Error("valid for more than the store has said, or for less")
		}
		link.Thaw()
		_ = lease.Unlock(t.Context())
	})
}

// A place may be as long as a TTL.
func TestLease_Ensure_toldOfALongPlace(t *testing.T) {
	opts := []distlock.Option{distlock.Backoff(time.Second, 10*time.Second)} // a place of 30 s, as the TTL
	told(t, opts, func(t *testing.T, first *distlock.Lease, second *call, _ *chaos.Store, _ *tally) {
		time.Sleep(4 * time.Second)
		free(t, first)
		lease := second.now(t)
		if lease.Ensure(t.Context(), 28*time.Second) != nil {
			t.Errorf("%v left, and not renewed", time.Until(lease.Until()))
		}
		free(t, lease)
	})
}

// A renewal that Ensure asked for and that is not answered leaves time for another.
func TestLease_Ensure_toldAndNotRenewed(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		link.Next(chaos.Renew, chaos.Action{Kind: chaos.RequestLost})
		free(t, first)
		lease := second.now(t)
		if lease.Ensure(t.Context(), 20*time.Second) == nil {
			t.Error("valid for more than the store has said")
		}
		time.Sleep(20 * time.Second)
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		free(t, lease)
	})
}

// A renewal that Ensure asks for does not undo an Extend that is under way.
func TestLease_Ensure_toldAndExtended(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		free(t, first)
		lease := second.now(t)
		link.Next(chaos.Renew, chaos.Action{Kind: chaos.ReplyLate, For: 500 * time.Millisecond})
		done := make(chan error, 1)
		go func() { done <- lease.Extend(t.Context(), time.Hour) }()
		synctest.Wait()
		if lease.Ensure(t.Context(), 20*time.Second) != nil {
			t.Error("not valid for what its TTL allows")
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

// A handle is good for a TTL, and not for the rest of a place.
func TestLease_Handle_told(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		free(t, first)
		lease := second.now(t)
		link.Freeze()
		_, err := lease.Handle(t.Context())
		wants(t, err, distlock.ErrUnknown)
		link.Thaw()
		if err := lease.Err(); err != nil {
			t.Fatalf("the lease is not as it was: %v", err)
		}
		h, err := lease.Handle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(h.TTL() - time.Second)
		c, err := distlock.New(link)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		free(t, must(t)(c.Attach(t.Context(), h)))
	})
}

// A first renewal that is not answered leaves time for another.
func TestLocker_Lock_toldAndNotRenewed(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		link.Next(chaos.Renew, chaos.Action{Kind: chaos.RequestLost})
		free(t, first)
		lease := second.now(t)
		time.Sleep(20 * time.Second)
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		free(t, lease)
	})
}

// Trust counts from the ask that gave the place its life, and not from the message.
func TestLocker_Lock_toldLate(t *testing.T) {
	told(t, nil, func(t *testing.T, first *distlock.Lease, second *call, link *chaos.Store, _ *tally) {
		asked := time.Now() // the waiter asked just now: its place lasts for 3 s
		time.Sleep(400 * time.Millisecond)
		free(t, first)
		lease := second.now(t)
		link.Freeze() // no renewal arrives
		<-lease.Done()
		if d := time.Since(asked); d >= 3*time.Second {
			t.Errorf("trusted until %v after the ask, with a place of 3s", d)
		}
		link.Thaw()
	})
}

// What needs its whole TTL in the store is asked for.
func TestLocker_Lock_toldButAsked(t *testing.T) {
	for name, opt := range map[string]distlock.Option{
		"fixed": distlock.NoRenewal(), "lock delay": distlock.LockDelay(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			told(t, []distlock.Option{opt}, func(t *testing.T, first *distlock.Lease, second *call, _ *chaos.Store, seen *tally) {
				asks := seen.of(distlock.EventAttempted)
				free(t, first)
				lease := second.now(t)
				if n := seen.of(distlock.EventAttempted) - asks; n != 1 || time.Until(lease.Until()) < 25*time.Second {
					t.Errorf("%d asks, trusted until %v: want one ask and a full lease", n, lease.Until())
				}
				free(t, lease)
			})
		})
	}
}

// A message that tells of an earlier place, or of a claim that has ended, is no grant.
func TestLocker_Lock_toldOfThePast(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		wake := make(chan driver.Wake, 1)
		g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return wake }
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		c := begin(t.Context(), b.Lock, "k").waits(t)

		wake <- driver.Wake{Granted: true, Fence: first.Fence() - driver.Span}
		c.waits(t) // its fence is below that of the holder

		g.set(func(g *gate) {
			g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
				return driver.Result{}, driver.ErrUnavailable
			}
		})
		time.Sleep(4 * time.Second) // the place ends
		g.set(func(g *gate) { g.acquire = nil })
		time.Sleep(2 * time.Second) // another begins
		g.expect(t, 1, 1)
		wake <- driver.Wake{Granted: true, Fence: first.Fence() + driver.Span}
		c.waits(t) // it may be of the first place

		free(t, first)
		wake <- driver.Wake{}
		free(t, c.now(t))
	})
}

// The first answer to a waiter may come after an ask that was not answered took a place, and lost it.
func TestLocker_Lock_toldOfAnUnseenPlace(t *testing.T) {
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

// A reader does not inherit a claim that the store granted unasked before it came: claims with higher fences may have
// come and gone since.
func TestTurn_readerInheritsNoUnaskedGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		wake := make(chan driver.Wake, 1)
		g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return wake }
		var place driver.Request
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if r.QueueTTL > 0 {
				place = r
			}
			return next(ctx, r)
		}
		a, b := g.locker(t), g.locker(t)
		writer := must(t)(a.Lock(t.Context(), "k"))
		ctx, leave := context.WithCancel(t.Context())
		early := begin(ctx, b.RLock, "k").waits(t)
		free(t, writer)
		place.QueueTTL = 0
		if res, err := g.Store.Acquire(t.Context(), place); err != nil || !res.Granted { // as a store that hands on does it
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

// A store's error at the first ask is shown, also of a key that was refused a moment ago: after a second
// try if the outcome is unknown.
func TestLocker_Lock_firstAskOfACrowd(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		asks int
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
				if one.err == nil || errors.Is(one.err, distlock.ErrUnknown) || g.count("acquire") != c.asks {
					t.Errorf("%v after %d asks, want an error after %d", one.err, g.count("acquire"), c.asks)
				}
				g.set(func(g *gate) { g.acquire = nil })
				free(t, lease)
				g.empty(t, a, b)
			})
		})
	}
}
