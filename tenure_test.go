package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// tenureTime and tenureLeases are the documented bounds of a tenure while another process waits.
const (
	tenureTime   = 50 * time.Millisecond
	tenureLeases = driver.Span
)

// Calls of one process acquire the lock in order of arrival.
func TestTenure_fifoInProcess(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Second} {
		t.Run(hold.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				first := must(t)(l.Lock(t.Context(), "k"))
				var calls []*call
				for range 20 {
					calls = append(calls, begin(t.Context(), l.Lock, "k").waits(t))
				}
				time.Sleep(hold)
				free(t, first)
				for i, c := range calls {
					lease := c.now(t)
					if i+1 < len(calls) {
						calls[i+1].waits(t)
					}
					time.Sleep(hold)
					free(t, lease)
				}
				g.empty(t, l)
			})
		})
	}
}

// Processes acquire the lock in order of arrival, each for one tenure.
func TestTenure_fifoAmongProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var got order
		first := must(t)(g.locker(t).Lock(t.Context(), "k"))
		var wg sync.WaitGroup
		for i := range 5 {
			l := g.locker(t)
			for j := range 3 {
				c := begin(t.Context(), l.Lock, "k").waits(t)
				wg.Go(func() {
					lease := c.granted(t)
					got.add("%d.%d", i, j)
					time.Sleep(time.Millisecond)
					free(t, lease)
				})
			}
		}
		free(t, first)
		wg.Wait()
		want := "0.0 0.1 0.2 1.0 1.1 1.2 2.0 2.1 2.2 3.0 3.1 3.2 4.0 4.1 4.2"
		if got.String() != want {
			t.Errorf("got  %v\nwant %s", &got, want)
		}
		g.empty(t)
	})
}

// A process or goroutine that held the lock and calls Lock again goes to the end of the queue.
func TestTenure_againGoesToTheEnd(t *testing.T) {
	for _, processes := range []int{1, 3} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				var got order
				gateway := g.locker(t)
				first := must(t)(gateway.Lock(t.Context(), "k"))
				lockers := []*distlock.Locker{gateway}
				if processes > 1 {
					lockers = []*distlock.Locker{g.locker(t), g.locker(t), g.locker(t)}
				}
				var wg sync.WaitGroup
				for i := range 3 {
					c := begin(t.Context(), lockers[i%len(lockers)].Lock, "k").waits(t)
					wg.Go(func() {
						for range 4 {
							lease := c.granted(t)
							got.add("%d", i)
							time.Sleep(time.Second)
							free(t, lease)
							c = begin(t.Context(), lockers[i%len(lockers)].Lock, "k")
						}
						free(t, c.granted(t))
					})
				}
				free(t, first)
				wg.Wait()
				if want := "0 1 2 0 1 2 0 1 2 0 1 2"; got.String() != want {
					t.Errorf("got %v, want %s", &got, want)
				}
			})
		})
	}
}

// contend starts goroutines of some Lockers that acquire one lock again and again. It returns the
// fences in the order of the grants.
func contend(t *testing.T, lockers []*distlock.Locker, goroutines, rounds int, hold time.Duration) (fences []uint64) {
	var wg sync.WaitGroup
	for _, l := range lockers {
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					lease, err := l.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					fences = append(fences, lease.Fence()) // not synchronised: the race detector checks the lock
					time.Sleep(hold)
					free(t, lease)
				}
			})
		}
	}
	wg.Wait()
	for i := 1; i < len(fences); i++ {
		if fences[i] <= fences[i-1] {
			t.Fatalf("fence %d, the %dth, after %d", fences[i], i, fences[i-1])
		}
	}
	return fences
}

// A hand-off needs no call of the store, and every lease has its own fencing token. The process
// acquires again when the 128 fences of a grant are used up.
func TestTenure_handsOff(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		n := len(contend(t, []*distlock.Locker{l}, 40, 100, time.Microsecond)) // a call always waits
		if want := fmt.Sprintf("acquire %d, renew 0, release 1", (n+tenureLeases-1)/tenureLeases); n != 4000 || g.total() != want {
			t.Errorf("%s for %d leases, want %s", g.total(), n, want)
		}
		g.empty(t, l)
	})
}

// Fences grow also when several processes hand the lock off among their goroutines and to each
// other.
func TestTenure_handsOffAmongProcesses(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Microsecond, 100 * time.Microsecond, 20 * time.Millisecond} {
		t.Run(hold.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				lockers := []*distlock.Locker{g.locker(t), g.locker(t), g.locker(t)}
				fences := contend(t, lockers, 8, 200, hold)
				if len(fences) != 4800 {
					t.Errorf("%d leases", len(fences))
				}
				g.empty(t, lockers...)
			})
		})
	}
}

// A tenure ends soon when another process waits: after tenureTime and the hold that is under way
// at that moment. If no time passes at all, it ends after twice the number of fences of a grant.
func TestTenure_endsForOthers(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(hold.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t), g.locker(t)
				ctx, cancel := context.WithCancel(t.Context())
				var leases, since atomic.Int64 // since b has a queue entry; -1: it has none yet
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					res, err := next(ctx, r)
					if r.Holder == "b" && r.QueueTTL > 0 && !res.Granted {
						since.CompareAndSwap(-1, leases.Load())
					}
					return res, err
				}
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for ctx.Err() == nil {
							lease, err := a.Lock(t.Context(), "k")
							if err != nil {
								t.Error(err)
								return
							}
							leases.Add(1)
							runtime.Gosched() // for holds of no time
							time.Sleep(hold)
							free(t, lease)
						}
					})
				}
				for i := range 20 {
					if hold > 0 {
						time.Sleep(time.Duration(i) * 7777 * time.Microsecond) // another moment of a tenure each time
					}
					since.Store(-1)
					c := begin(t.Context(), b.Lock, "k", distlock.Holder("b"))
					lease := c.granted(t)
					if hold > 0 {
						c.within(t, 0, tenureTime+hold)
					} else if n := leases.Load() - since.Load(); since.Load() >= 0 && n > 2*tenureLeases {
						t.Errorf("%d leases while another process waited", n)
					}
					free(t, lease)
				}
				cancel()
				wg.Wait()
				g.empty(t, a, b)
			})
		})
	}
}

// A tenure ends with its current lease when a renewal has reported that another process waits.
func TestTenure_learnsOfOthersByRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		renewed := make(chan struct{}, 1)
		a := g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
			if e.Type == distlock.EventRenewed {
				renewed <- struct{}{}
			}
		}))
		b := g.locker(t)
		lease := must(t)(a.Lock(t.Context(), "k"))
		local, remote := begin(t.Context(), a.Lock, "k").waits(t), begin(t.Context(), b.Lock, "k").waits(t)
		<-renewed
		g.reset()
		free(t, lease)
		second := remote.now(t)
		local.waits(t)
		// One release, one attempt of the notified waiter, and one attempt of the waiter that goes
		// to the end of the queue.
		if s := g.total(); s != "acquire 2, renew 0, release 1" {
			t.Error(s)
		}
		free(t, second)
		free(t, local.now(t))
		g.empty(t, a, b)
	})
}

// Several busy processes have about the same number of leases.
func TestTenure_sharesAreEven(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		counts := make([]int, 4)
		var wg sync.WaitGroup
		for i := range counts {
			l := g.locker(t)
			for range 1 + 5*i { // more goroutines do not get a larger share
				wg.Go(func() {
					for {
						lease, err := l.Lock(ctx, "k")
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							return
						}
						counts[i]++
						time.Sleep(10 * time.Millisecond)
						free(t, lease)
					}
				})
			}
		}
		wg.Wait()
		for i, n := range counts[1:] {
			if n < 1000 || n > 2500 {
				t.Errorf("process %d of %d had %d leases: %d", i+1, len(counts), n, counts)
			}
		}
		if counts[0] < 250 {
			t.Errorf("the process with one goroutine had %d leases: %d", counts[0], counts)
		}
	})
}

// A claim is handed off only to a call that wants the same claim: then the lease of that call has
// the next fence. Otherwise its lease has the fence of a new grant.
func TestTenure_handsOffOnlyTheSame(t *testing.T) {
	type opts = []distlock.Option
	long := time.Minute
	for _, c := range []struct {
		name          string
		holder, next  opts
		shared        bool // the next call is a reader
		before        func(t *testing.T, g *gate, lease *distlock.Lease)
		handed        bool
		unlock        error // the result of Unlock
		least, atMost time.Duration
	}{
		{name: "the same", handed: true},
		{name: "equal options", holder: opts{distlock.Meta("a", "b"), distlock.Value([]byte("v"))},
			next: opts{distlock.Value([]byte("v")), distlock.Meta("a", "b")}, handed: true},
		{name: "another longest hold", holder: opts{distlock.MaxHold(time.Second)}, next: opts{distlock.MaxHold(long)}, handed: true},
		{name: "another wait", next: opts{distlock.MaxWait(long), distlock.MaxAttempts(7), distlock.Backoff(time.Second, time.Second)}, handed: true},
		{name: "mode", shared: true},
		{name: "TTL", next: opts{distlock.TTL(long)}},
		{name: "lock delay", next: opts{distlock.LockDelay(time.Second)}},
		{name: "TTL and lock delay of the same sum", holder: opts{distlock.TTL(long)},
			next: opts{distlock.TTL(long - time.Second), distlock.LockDelay(time.Second)}},
		{name: "holder", next: opts{distlock.Holder("x")}},
		{name: "meta", next: opts{distlock.Meta("a", "b")}},
		{name: "note", next: opts{distlock.Note("n")}},
		{name: "value", next: opts{distlock.Value([]byte("v"))}},
		{name: "fixed", holder: opts{distlock.NoRenewal()}, next: opts{distlock.NoRenewal()}},
		{name: "next is fixed", next: opts{distlock.NoRenewal()}},
		{name: "min hold", holder: opts{distlock.MinHold(2 * time.Second)}, next: opts{distlock.MinHold(2 * time.Second)},
			least: 2 * time.Second, atMost: 2*time.Second + 5*time.Millisecond},
		{name: "extended", before: func(t *testing.T, _ *gate, lease *distlock.Lease) {
			if err := lease.Extend(t.Context(), 20*time.Second); err != nil {
				t.Error(err)
			}
		}},
		{name: "extend failed", before: func(t *testing.T, g *gate, lease *distlock.Lease) {
			g.set(func(g *gate) {
				g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, errCut }
			})
			wants(t, lease.Extend(t.Context(), 20*time.Second), errCut)
			g.mend()
		}},
		{name: "handle", before: func(t *testing.T, _ *gate, lease *distlock.Lease) {
			if _, err := lease.Detach(t.Context()); err != nil {
				t.Error(err)
			}
		}, least: 30 * time.Second, atMost: 30*time.Second + 5*time.Millisecond},
		{name: "release failed", next: opts{distlock.TTL(long)}, before: func(_ *testing.T, g *gate, _ *distlock.Lease) {
			g.set(func(g *gate) {
				g.release = func(context.Context, driver.ID, func() error) error { return errCut }
			})
			time.AfterFunc(10*time.Second, g.mend)
		}, unlock: distlock.ErrUnknown, least: 30 * time.Second, atMost: 30*time.Second + 5*time.Millisecond},
		{name: "lost", before: func(t *testing.T, g *gate, lease *distlock.Lease) {
			if _, err := g.Store.Break(t.Context(), "k", 0, "test"); err != nil {
				t.Error(err)
			}
			<-lease.Done()
		}, unlock: distlock.ErrLost, atMost: 11 * time.Second},
		{name: "not renewed", before: func(_ *testing.T, g *gate, lease *distlock.Lease) {
			g.set(func(g *gate) {
				g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, errCut }
			})
			<-lease.Done()
		}, unlock: distlock.ErrLost, least: 30 * time.Second, atMost: 30*time.Second + 5*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				lease := must(t)(l.Lock(t.Context(), "k", c.holder...))
				take := l.Lock
				if c.shared {
					take = l.RLock
				}
				next := begin(t.Context(), take, "k", c.next...)
				synctest.Wait()
				if c.before != nil {
					c.before(t, g, lease)
				}
				if err := lease.Unlock(t.Context()); !errors.Is(err, c.unlock) {
					t.Errorf("Unlock: %v, want %v", err, c.unlock)
				}
				got := next.granted(t)
				next.within(t, c.least, c.atMost)
				switch {
				case c.handed && got.Fence() != lease.Fence()+1:
					t.Errorf("fence %d after %d: not handed off", got.Fence(), lease.Fence())
				case !c.handed && got.Fence() < lease.Fence()+tenureLeases:
					t.Errorf("fence %d after %d: handed off", got.Fence(), lease.Fence())
				}
				g.expect(t, 1, 0)
				free(t, got)
				time.Sleep(c.least) // the store may keep the next claim as long
				g.empty(t, l)
			})
		})
	}
}

// MaxHold bounds one lease, not the tenure.
func TestTenure_maxHoldIsOfTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		a := must(t)(l.Lock(t.Context(), "k", distlock.MaxHold(time.Second)))
		next := begin(t.Context(), l.Lock, "k").waits(t)
		last := begin(t.Context(), l.Lock, "k", distlock.MaxHold(2*time.Second)).waits(t)
		free(t, a)
		b := next.now(t)
		time.Sleep(time.Hour)
		free(t, b) // not lost
		c := last.now(t)
		start := time.Now()
		<-c.Done()
		wants(t, c.Err(), distlock.ErrMaxHold)
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("lost after %v", d)
		}
	})
}

// The store ends a claim and the process does not know it yet: the next lease is a new grant, or
// the next call waits.
func TestTenure_brokenBeforeReacquire(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprintf("taken by another %v", taken), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l, other := g.locker(t), g.locker(t)
				first := must(t)(l.Lock(t.Context(), "k"))
				next := begin(t.Context(), l.Lock, "k").waits(t)
				time.Sleep(time.Second) // long enough that the hand-off calls the store
				if _, err := g.Store.Break(t.Context(), "k", 0, "test"); err != nil {
					t.Fatal(err)
				}
				last := first.Fence()
				if taken {
					lease := must(t)(other.Lock(t.Context(), "k"))
					free(t, first)
					next.waits(t)
					last = lease.Fence()
					free(t, lease)
				} else {
					free(t, first)
				}
				got := next.now(t)
				if got.Fence() < last+tenureLeases {
					t.Errorf("fence %d after %d", got.Fence(), last)
				}
				free(t, got)
				g.empty(t, l, other)
			})
		})
	}
}

// The hand-off of an old tenure reacquires the claim, once. The tenure begins again with it.
func TestTenure_reacquired(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(30*time.Second))
		lease := must(t)(l.Lock(t.Context(), "k"))
		var calls []*call
		for range 20 {
			calls = append(calls, begin(t.Context(), l.Lock, "k").waits(t))
		}
		time.Sleep(8 * time.Second) // no renewal was due yet
		last := lease.Fence()
		free(t, lease)
		for _, c := range calls {
			next := c.now(t)
			if next.Fence() != last+1 {
				t.Errorf("fence %d after %d", next.Fence(), last)
			}
			last = next.Fence()
			if !next.Valid(28 * time.Second) {
				t.Errorf("%v left of a lease that was just reacquired", time.Until(next.Until()))
			}
			free(t, next)
		}
		if s := g.total(); s != "acquire 2, renew 0, release 1" {
			t.Error(s)
		}
		g.empty(t, l)
	})
}

// A claim that cannot be reacquired is released, and the waiters continue.
func TestTenure_notReacquired(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		first := must(t)(l.Lock(t.Context(), "k"))
		next := begin(t.Context(), l.Lock, "k").waits(t)
		time.Sleep(time.Second)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				g.set(func(g *gate) { g.acquire = nil })
				return driver.Result{}, errCut
			}
		})
		free(t, first)
		got := next.now(t)
		if got.Fence() < first.Fence()+tenureLeases {
			t.Errorf("fence %d after %d", got.Fence(), first.Fence())
		}
		free(t, got)
		g.empty(t, l)
		time.Sleep(time.Minute)
		if n := g.count("renew"); n != 0 {
			t.Errorf("%d renewals of tenures that have ended", n)
		}
	})
}

// A waiter whose context ends returns although the attempt to reacquire hangs.
func TestTenure_reacquiredTooSlowly(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		first := must(t)(l.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		next := begin(ctx, l.Lock, "k").waits(t)
		time.Sleep(time.Second)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
				<-ctx.Done()
				return driver.Result{}, ctx.Err()
			}
		})
		free(t, first)
		next.waits(t)
		cancel()
		if !next.returned() {
			t.Fatal("Lock does not return")
		}
		next.refused(t, distlock.ErrHeld, context.Canceled)
		g.empty(t, l)
	})
}

// The runner took a queue entry before another call of the process was granted. The entry is
// released when a hand-off leaves no waiter that needs it.
func TestTenure_givesUpEntryAfterHandOff(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		tried := make(chan struct{})
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if r.QueueTTL > 0 {
				<-tried
				return next(ctx, r)
			}
			time.Sleep(time.Millisecond)
			defer close(tried)
			return next(ctx, r)
		}
		try := begin(t.Context(), l.TryLock, "k").waits(t)
		c := begin(t.Context(), l.Lock, "k").waits(t)
		lease := try.granted(t)
		c.waits(t)
		g.expect(t, 1, 1)
		free(t, lease)
		next := c.now(t)
		if next.Fence() != lease.Fence()+1 {
			t.Errorf("fence %d after %d: not handed off", next.Fence(), lease.Fence())
		}
		g.expect(t, 1, 0)
		free(t, next)
		g.empty(t, l)
	})
}

// The runner has a tenure to reacquire and a grant without a waiter at the same time: it releases
// both.
func TestTenure_twoToEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			r.QueueTTL = 0 // so that TryLock gets in before the waiter
			return next(ctx, r)
		}
		a, b := g.locker(t), g.locker(t)
		first := must(t)(b.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		c := begin(ctx, a.Lock, "k").waits(t)
		free(t, first)
		lease := must(t)(a.TryLock(t.Context(), "k"))
		time.Sleep(10 * time.Millisecond)
		attempting, answer := make(chan struct{}), make(chan struct{})
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				close(attempting)
				<-answer
				if _, err := g.Store.Break(t.Context(), "k", 0, "test"); err != nil {
					t.Error(err)
				}
				return next(t.Context(), r)
			}
		})
		<-attempting
		free(t, lease) // kept for the waiter
		cancel()
		synctest.Wait()
		close(answer)
		c.refused(t, distlock.ErrHeld, context.Canceled)
		g.mend()
		g.empty(t, a, b)
	})
}

// Shared claims are not handed off: a claim with a higher fence may have come and gone since the
// grant.
func TestTenure_readers(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first, second := must(t)(a.RLock(t.Context(), "k")), must(t)(a.RLock(t.Context(), "k"))
		writer := begin(t.Context(), b.Lock, "k").waits(t)
		readers := []*call{begin(t.Context(), a.RLock, "k").waits(t), begin(t.Context(), a.RLock, "k").waits(t)}
		time.Sleep(time.Second)
		free(t, first)
		readers[0].waits(t) // the writer came first
		free(t, second)
		w := writer.now(t)
		readers[0].waits(t)
		free(t, w)
		for _, c := range readers {
			if lease := c.now(t); lease.Fence() <= w.Fence() {
				t.Errorf("fence %d after %d", lease.Fence(), w.Fence())
			}
		}
		for _, c := range readers {
			free(t, c.lease)
		}
		g.empty(t, a, b)
	})
}

// The library sends no request for a feature that the store does not have.
func TestTenure_poorStores(t *testing.T) {
	for _, c := range []struct {
		name   string
		lacks  func(*driver.Features)
		fences bool
		calls  string // for 300 leases in a row
	}{
		{"no floor", func(f *driver.Features) { f.Floor = false }, true, "acquire 3, renew 0, release 3"},
		{"no fence", func(f *driver.Features) { f.Fence, f.Floor = false, false }, false, "acquire 1, renew 0, release 1"},
		{"no queue", func(f *driver.Features) { f.Queue = false }, true, "acquire 3, renew 0, release 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				g.features = c.lacks
				f := g.Features()
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					if r.Floor > 0 && !f.Floor || r.QueueTTL > 0 && !f.Queue {
						t.Errorf("request for a feature that the store does not have: %+v", r)
					}
					res, err := next(ctx, r)
					if !f.Fence {
						res.Fence = 0
					}
					return res, err
				}
				l := g.locker(t)
				first := must(t)(l.Lock(t.Context(), "k"))
				var calls []*call
				for range 299 {
					calls = append(calls, begin(t.Context(), l.Lock, "k").waits(t))
				}
				free(t, first)
				last := first.Fence()
				for _, call := range calls {
					lease := call.now(t)
					if c.fences && lease.Fence() <= last || !c.fences && lease.Fence() != 0 {
						t.Fatalf("fence %d after %d", lease.Fence(), last)
					}
					last = lease.Fence()
					free(t, lease)
				}
				if got := g.total(); got != c.calls {
					t.Errorf("%s, want %s", got, c.calls)
				}
				g.empty(t, l)
			})
		})
	}
}

// A store without a queue cannot report whether other processes wait. A busy process yields the
// lock to them from time to time.
func TestTenure_yieldsWithoutAQueue(t *testing.T) {
	for _, watches := range []bool{true, false} {
		t.Run(fmt.Sprint("watches ", watches), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				g.features = func(f *driver.Features) { f.Queue = false }
				g.watch = func(ctx context.Context, id driver.ID, _ func() <-chan driver.Wake) <-chan driver.Wake {
					if !watches {
						return nil
					}
					return g.Store.Watch(ctx, driver.ID{Key: id.Key}) // whenever the key is released
				}
				busy, other := g.locker(t), g.locker(t)
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for ctx.Err() == nil {
							if lease, err := busy.Lock(ctx, "k"); err == nil {
								time.Sleep(time.Millisecond)
								free(t, lease)
							}
						}
					})
				}
				time.Sleep(time.Second)
				start := time.Now()
				for range 5 {
					free(t, must(t)(other.Lock(ctx, "k", distlock.MaxWait(time.Minute))))
				}
				// The attempts are at random times: one wait in 15,000 is longer than 5 s.
				if d := time.Since(start); d > 10*time.Second {
					t.Errorf("the other process waited for %v in all", d)
				}
				stop()
				wg.Wait()
				g.empty(t, busy, other)
			})
		})
	}
}

// A grant whose answer was lost was meant for a reader that has left. A later reader does not get
// this claim: claims with higher fences may have come and gone since.
func TestTenure_readerInheritsNoOldFence(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		writer := must(t)(b.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		first := begin(ctx, a.RLock, "k").waits(t)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				res, err := next(ctx, r)
				if res.Granted && r.QueueTTL > 0 {
					return driver.Result{}, errors.New("the answer is lost")
				}
				return res, err
			}
		})
		free(t, writer)
		first.waits(t)
		g.expect(t, 1, 0) // granted, and the process does not know it

		other := must(t)(b.RLock(t.Context(), "k"))
		free(t, other)
		second := begin(t.Context(), a.RLock, "k").waits(t)
		cancel()
		first.refused(t, context.Canceled)
		g.mend()
		lease := second.granted(t)
		if lease.Fence() <= other.Fence() {
			t.Errorf("fence %d, but the lease with fence %d had ended before the call", lease.Fence(), other.Fence())
		}
		free(t, lease)
		g.empty(t, a, b)
	})
}
