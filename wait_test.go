package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// longestPoll is how long a waiter can miss what it was not told: the longest pause of the
// default backoff.
const longestPoll = time.Second

// A remote waiter is granted at the moment of the release: it is told, and does not poll.
func TestLocker_Lock_waits(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		c := begin(t.Context(), b.Lock, "k").waits(t)
		g.expect(t, 1, 1)
		time.Sleep(12345 * time.Millisecond)
		free(t, first)
		second := c.now(t)
		c.within(t, 12345*time.Millisecond, 12345*time.Millisecond)
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		free(t, second)
		g.empty(t, a, b)
	})
}

// What a wake-up that never comes costs.
func TestLocker_Lock_wakeUpLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		watch func(ctx context.Context, id driver.ID, next func() <-chan driver.Wake) <-chan driver.Wake
	}{
		{"no watch", func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return nil }},
		{"never fires", func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake {
			return make(chan driver.Wake)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				g.watch = c.watch
				a, b := g.locker(t), g.locker(t)
				first := must(t)(a.Lock(t.Context(), "k"))
				c := begin(t.Context(), b.Lock, "k").waits(t)
				time.Sleep(10 * time.Second)
				free(t, first)
				free(t, c.granted(t))
				c.within(t, 10*time.Second, 10*time.Second+longestPoll)
				g.empty(t, a, b)
			})
		})
	}
}

// What ends by itself in as long as a Duration can be is no reason to ask at once.
func TestLocker_Lock_longRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				res, err := next(ctx, r)
				if !res.Granted && g.count("acquire") < 100 {
					res.Retry = math.MaxInt64
				}
				return res, err
			}
		})
		c := begin(t.Context(), b.Lock, "k").waits(t)
		g.reset()
		time.Sleep(10 * time.Second)
		if n := g.count("acquire"); n > 20 {
			t.Errorf("%d asks in 10 s", n)
		}
		free(t, first)
		free(t, c.granted(t))
		g.empty(t, a, b)
	})
}

// A wake-up for nothing costs one ask and is no grant.
func TestLocker_Lock_wokenForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		wake := make(chan driver.Wake, 1)
		g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return wake }
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		c := begin(t.Context(), b.Lock, "k").waits(t)
		g.reset()
		for range 10 {
			wake <- driver.Wake{}
			c.waits(t)
		}
		if n := g.count("acquire"); n != 10 {
			t.Errorf("%d asks for 10 wake-ups", n)
		}
		free(t, first)
		wake <- driver.Wake{}
		free(t, c.now(t))
	})
}

// The wait costs the store little, however long it lasts.
func TestLocker_Lock_pollIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		deaf bool
		opts []distlock.Option
		most int // asks of one waiting process in 100 s
	}{
		{"watch", false, nil, 200},
		{"no watch", true, nil, 250},
		{"backoff", true, []distlock.Option{distlock.Backoff(5*time.Second, 10*time.Second)}, 21},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				if c.deaf {
					g.deaf()
				}
				a, b := g.locker(t), g.locker(t, c.opts...)
				first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
				var calls []*call
				g.reset()
				for range 2000 {
					calls = append(calls, begin(t.Context(), b.Lock, "k").waits(t))
				}
				g.expect(t, 1, 1) // one place for all of them
				time.Sleep(100 * time.Second)
				if n := g.count("acquire"); n > c.most || n < 5 {
					t.Errorf("%d asks in 100 s, want 5 to %d", n, c.most)
				}
				free(t, first)
				for _, c := range calls {
					free(t, c.granted(t))
				}
				g.empty(t, a, b)
			})
		})
	}
}

// Whoever waits is told of a release that falls between the refusal and the watch.
func TestLocker_Lock_watchesBeforeItAsks(t *testing.T) {
	for _, gap := range []string{"after the first refusal", "before the watch", "after the watch"} {
		t.Run(gap, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t), g.locker(t)
				first := must(t)(a.Lock(t.Context(), "k"))
				release := func() { free(t, first) }
				switch gap {
				case "after the first refusal":
					g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
						g.set(func(g *gate) { g.acquire = nil })
						defer release()
						return next(ctx, r)
					}
				default:
					g.watch = func(_ context.Context, _ driver.ID, next func() <-chan driver.Wake) <-chan driver.Wake {
						if gap == "before the watch" {
							release()
							return next()
						}
						defer release()
						return next()
					}
				}
				c := begin(t.Context(), b.Lock, "k")
				free(t, c.now(t))
				c.within(t, 0, 0)
			})
		})
	}
}

// A holder that crashed is succeeded when the rest of its TTL is over.
func TestLocker_Lock_succeedsCrash(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		b := g.locker(t)
		r := driver.Request{
			ID: driver.ID{Key: "k", Owner: "dead"}, Weight: driver.Whole, Limit: driver.Whole, TTL: 20 * time.Second, Holder: "dead",
		}
		if res, err := g.Store.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		time.Sleep(7 * time.Second)
		c := begin(t.Context(), b.Lock, "k").waits(t)
		free(t, c.granted(t))
		c.within(t, 13*time.Second, 13*time.Second+5*time.Millisecond)
		g.empty(t, b)
	})
}

// A waiter that died is passed over when its place is over.
func TestLocker_Lock_passesDeadWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		r := driver.Request{
			ID: driver.ID{Key: "k", Owner: "dead"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Hour, QueueTTL: 3 * time.Second,
		}
		if res, err := g.Store.Acquire(t.Context(), r); err != nil || res.Granted {
			t.Fatal(res, err)
		}
		c := begin(t.Context(), b.Lock, "k").waits(t)
		time.Sleep(time.Millisecond)
		free(t, first)
		c.waits(t)
		free(t, c.granted(t))
		c.within(t, 0, 3*time.Second+5*time.Millisecond)
		g.empty(t, a, b)
	})
}

// A place outlives its waiter by half a minute at most, however seldom that wanted to ask.
func TestLocker_Lock_placeIsShort(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t, distlock.Backoff(time.Hour, time.Hour))
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(24*time.Hour)))
		c := begin(t.Context(), b.Lock, "k").waits(t)
		for range 100 {
			time.Sleep(time.Minute)
			why, err := b.Why(t.Context(), "k")
			if err != nil || len(why.Waiters) != 1 || why.Waiters[0].Left > 30*time.Second || why.Waiters[0].Held < time.Minute {
				t.Fatal(why, err)
			}
		}
		free(t, first)
		free(t, c.now(t))
		g.empty(t, a, b)
	})
}

// A place is kept as long as its process waits, and no longer.
func TestLocker_Lock_keepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b, c := g.locker(t), g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		second := begin(ctx, b.Lock, "k").waits(t)
		third := begin(t.Context(), c.Lock, "k").waits(t)
		for range 600 {
			time.Sleep(time.Second)
			g.expect(t, 1, 2)
		}
		cancel()
		second.refused(t, distlock.ErrHeld, context.Canceled)
		g.expect(t, 1, 1)
		free(t, first)
		free(t, third.now(t))
		g.empty(t, a, b, c)
	})
}

// Readers go in together, whoever they are.
func TestLocker_RLock_together(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		lockers := []*distlock.Locker{g.locker(t), g.locker(t), g.locker(t)}
		writer := must(t)(lockers[0].Lock(t.Context(), "k"))
		var readers []*call
		for i := range 30 {
			readers = append(readers, begin(t.Context(), lockers[i%3].RLock, "k").waits(t))
		}
		free(t, writer)
		for _, c := range readers {
			c.now(t) // all of them are in before one of them leaves
		}
		g.expect(t, 30, 0)
		for _, c := range readers {
			free(t, c.lease)
		}
		g.empty(t, lockers...)
	})
}

// Readers that come after a writer wait for it: a stream of readers does not starve it.
func TestLocker_RLock_doesNotStarveWriters(t *testing.T) {
	for _, where := range []string{"same process", "other process"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a := g.locker(t)
				b := a
				if where == "other process" {
					b = g.locker(t)
				}
				early := must(t)(a.RLock(t.Context(), "k"))
				writer := begin(t.Context(), b.Lock, "k").waits(t)
				late := begin(t.Context(), a.RLock, "k").waits(t)
				if _, err := a.TryRLock(t.Context(), "k"); !errors.Is(err, distlock.ErrHeld) {
					t.Errorf("TryRLock passed a writer: %v", err)
				}
				free(t, early)
				w := writer.now(t)
				late.waits(t)
				free(t, w)
				free(t, late.now(t))
				g.empty(t, a, b)
			})
		})
	}
}

// The readers behind a writer that gives up go in at once, if there is room for readers.
func TestLocker_RLock_afterWriterLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.RLock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		writer := begin(ctx, b.Lock, "k").waits(t)
		readers := []*call{begin(t.Context(), b.RLock, "k").waits(t), begin(t.Context(), b.RLock, "k").waits(t)}
		time.Sleep(10 * time.Millisecond)
		cancel()
		writer.refused(t, distlock.ErrHeld, context.Canceled)
		for _, c := range readers {
			free(t, c.now(t))
			c.within(t, 0, 10*time.Millisecond)
		}
		free(t, first)
		g.empty(t, a, b)
	})
}

// A reader that was refused because of a writer of its own process, which came after it, goes
// first and does not wait for the poll.
func TestLocker_RLock_cameBeforeWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.RLock(t.Context(), "k"))
		slow := make(chan struct{})
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if r.Weight == 1 && r.QueueTTL == 0 {
				<-slow // the writer's place is in the store before this
			}
			return next(ctx, r)
		}
		reader := begin(t.Context(), b.RLock, "k").waits(t)
		writer := begin(t.Context(), b.Lock, "k").waits(t)
		g.expect(t, 1, 1)
		close(slow)
		free(t, reader.now(t))
		reader.within(t, 0, 0)
		free(t, first)
		free(t, writer.now(t))
		g.empty(t, a, b)
	})
}

// A wait that is cancelled leaves nothing behind, and says both that the lock is held and why
// the wait ended.
func TestLocker_Lock_cancelled(t *testing.T) {
	why := errors.New("no longer wanted")
	for _, where := range []string{"in line of its own process", "while the runner sleeps", "while the runner asks", "Wait"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t, distlock.Holder("me")), g.locker(t)
				first := must(t)(a.Lock(t.Context(), "k"))
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				l, want, opts := b, why, []distlock.Option(nil)
				switch where {
				case "in line of its own process":
					l = a
				case "Wait":
					opts, want = append(opts, distlock.MaxWait(time.Second)), context.DeadlineExceeded
				}
				c := begin(ctx, l.Lock, "k", opts...).waits(t)
				if where == "while the runner asks" {
					g.set(func(g *gate) {
						g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
							<-ctx.Done() // and then it arrives after all
							res, _ := next(context.WithoutCancel(ctx), r)
							return res, ctx.Err()
						}
					})
					time.Sleep(longestPoll)
					c.waits(t)
				}
				if where != "Wait" {
					cancel(why)
				}
				start := time.Now()
				err := c.refused(t, distlock.ErrHeld, want)
				var held *distlock.HeldError
				if !errors.As(err, &held) || held.Holder != "me" || held.Fence != first.Fence() || held.Name != "k" {
					t.Errorf("%+v does not tell the holder", held)
				}
				if where != "Wait" && time.Since(start) != 0 {
					t.Errorf("Lock returned %v after its ctx", time.Since(start))
				}
				g.expect(t, 1, 0) // at once, not after a while
				g.thaw()
				free(t, first)
				g.empty(t, a, b)
			})
		})
	}
}

// A call whose ctx is over before it begins does nothing.
func TestLocker_Lock_ctxIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no longer wanted")
		cancel(why)
		_, err := l.Lock(ctx, "k")
		wants(t, err, why)
		if s := g.total(); s != "acquire 0, renew 0, release 0" {
			t.Error(s)
		}
		lease := must(t)(l.Lock(t.Context(), "k"))
		_, err = l.Lock(ctx, "k")
		wants(t, err, why, distlock.ErrHeld)
		free(t, lease)
		g.empty(t, l)
	})
}

// A ctx that ends while the first ask is under way ends the call, and what the ask did is undone.
func TestLocker_Lock_cancelledInFirstAsk(t *testing.T) {
	for _, lost := range []string{"request", "reply"} {
		t.Run(lost+" lost", func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					if lost == "reply" {
						next(ctx, r)
					}
					<-ctx.Done()
					return driver.Result{}, ctx.Err()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				c := begin(ctx, l.Lock, "k").waits(t)
				next := begin(t.Context(), l.Lock, "k").waits(t)
				err := c.refused(t, context.DeadlineExceeded, distlock.ErrUnavailable)
				if errors.Is(err, distlock.ErrHeld) || errors.Is(err, distlock.ErrUnknown) {
					t.Error(err)
				}
				c.within(t, 3*time.Second, 3*time.Second)
				g.thaw()
				free(t, next.granted(t))
				g.empty(t, l)
			})
		})
	}
}

// With a store that does not answer, Lock returns at most a second after its ctx, and says
// that it does not know what it left behind.
func TestLocker_Lock_cancelledWhileFrozen(t *testing.T) {
	for _, when := range []string{"first ask", "waiting", "waiting locally"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t), g.locker(t)
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				var c, other *call
				switch when {
				case "first ask":
					g.freeze()
					c = begin(ctx, b.Lock, "k")
				case "waiting":
					must(t)(a.Lock(t.Context(), "k"))
					c = begin(ctx, b.Lock, "k").waits(t)
					g.freeze()
				case "waiting locally":
					must(t)(a.Lock(t.Context(), "k"))
					other = begin(t.Context(), b.Lock, "k").waits(t)
					c = begin(ctx, b.Lock, "k").waits(t)
					g.freeze()
				}
				err := c.refused(t, context.DeadlineExceeded)
				most := 5 * time.Second
				if when == "waiting locally" {
					most = 4 * time.Second // the place stays the other waiter's
				} else {
					wants(t, err, distlock.ErrUnknown)
				}
				if when != "first ask" {
					wants(t, err, distlock.ErrHeld)
				}
				c.within(t, 4*time.Second, most)
				g.thaw()
				time.Sleep(time.Minute) // claims and places run out
				if other != nil {
					_ = a.Close(t.Context()) // its lease was lost or kept, by then
					free(t, other.granted(t))
				}
			})
		})
	}
}

// One waiter that leaves does not disturb the others.
func TestLocker_Lock_othersGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		var calls []*call
		for range 3 {
			calls = append(calls, begin(ctx, b.Lock, "k").waits(t), begin(t.Context(), b.Lock, "k").waits(t))
		}
		cancel()
		for i := 0; i < 6; i += 2 {
			calls[i].refused(t, distlock.ErrHeld, context.Canceled)
		}
		g.expect(t, 1, 1)
		free(t, first)
		for i := 1; i < 6; i += 2 {
			free(t, calls[i].now(t))
		}
		g.empty(t, a, b)
	})
}

// A waiter that is cancelled at the very moment of its grant has the lease, or nobody has.
func TestLocker_Lock_cancelledAtTheGrant(t *testing.T) {
	var granted, refused int
	for seed := range uint64(400) {
		inBubble(t, func(t *testing.T, g *gate) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			lag := func() {
				mu.Lock()
				d := rng.IntN(3)
				mu.Unlock()
				time.Sleep(time.Duration(d) * time.Microsecond)
			}
			a, b := g.locker(t), g.locker(t)
			holder := []*distlock.Locker{a, b}[rng.IntN(2)] // by hand-off, or by the store
			first := must(t)(holder.Lock(t.Context(), "k"))
			if rng.IntN(2) == 0 {
				time.Sleep(time.Second) // the turn has to be prolonged
			}
			ctx, cancel := context.WithCancel(t.Context())
			c := begin(ctx, b.Lock, "k").waits(t)
			g.set(func(g *gate) {
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					lag()
					res, err := next(context.WithoutCancel(ctx), r)
					lag()
					return res, errors.Join(err, ctx.Err())
				}
			})
			unlocked := make(chan struct{})
			go func() {
				defer close(unlocked)
				lag()
				free(t, first)
			}()
			lag()
			lag()
			cancel()
			<-c.done
			<-unlocked
			g.thaw()
			if c.err == nil {
				granted++
				g.expect(t, 1, 0)
				free(t, c.lease)
			} else {
				refused++
				wants(t, c.err, distlock.ErrHeld, context.Canceled)
			}
			g.empty(t, a, b)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if granted < 20 || refused < 20 {
		t.Errorf("%d granted, %d refused: the moment was never met", granted, refused)
	}
}

// A wait does not tell of a call that was cut short for another's sake.
func TestLocker_Lock_afterOneThatLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		c := begin(ctx, b.Lock, "k").waits(t)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if r.QueueTTL == 0 {
					return next(ctx, r)
				}
				<-ctx.Done()
				time.Sleep(time.Millisecond)
				return driver.Result{}, ctx.Err()
			}
			g.release = func(_ context.Context, _ driver.ID, next func() error) error {
				time.Sleep(100 * time.Millisecond)
				return next()
			}
		})
		time.Sleep(longestPoll)
		c.waits(t)
		cancel() // cuts the ask short
		synctest.Wait()
		patient := begin(t.Context(), b.Lock, "k").waits(t)
		next := begin(t.Context(), b.Lock, "k", distlock.MaxWait(10*time.Millisecond))
		if err := next.refused(t, distlock.ErrHeld, context.DeadlineExceeded); errors.Is(err, context.Canceled) {
			t.Errorf("%v: its ctx was not cancelled", err)
		}
		c.refused(t, distlock.ErrHeld, context.Canceled)
		g.thaw()
		time.Sleep(10 * time.Second) // the ask that hangs is given up, and made again
		free(t, first)
		free(t, patient.now(t)) // with a place of its own
		g.empty(t, a, b)
	})
}

// A wait that ends and cannot take its place with it says so.
func TestLocker_Lock_notWithdrawn(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		_, err := b.Lock(t.Context(), "k", distlock.MaxWait(time.Second))
		wants(t, err, distlock.ErrHeld, distlock.ErrUnknown, errCut, context.DeadlineExceeded)
		g.expect(t, 1, 1)
		time.Sleep(3 * time.Second) // then it ends by itself
		g.expect(t, 1, 0)
		g.thaw()
		free(t, first)
		g.empty(t, a, b)
	})
}

// The same goes if a call of the process stands behind it that has no use for its place.
func TestLocker_Lock_notWithdrawnBeforeAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		one := begin(ctx, b.Lock, "k").waits(t)
		two := begin(t.Context(), b.Lock, "k", distlock.TTL(10*time.Second)).waits(t)
		g.set(func(g *gate) {
			g.release = func(context.Context, driver.ID, func() error) error {
				time.Sleep(time.Millisecond)
				return errCut
			}
		})
		cancel()
		one.refused(t, distlock.ErrHeld, distlock.ErrUnknown, errCut, context.Canceled)
		synctest.Wait()
		g.expect(t, 1, 2)
		g.thaw()
		free(t, first)
		free(t, two.granted(t)) // what is left ends by itself
		g.empty(t, a, b)
	})
}

// A call whose claim may have been granted unseen does not say that nothing was changed, whoever stands behind it.
func TestLocker_Lock_unknownBeforeAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		_, err := b.Lock(t.Context(), "k", distlock.MaxWait(time.Millisecond))
		wants(t, err, distlock.ErrHeld) // so the next call asks with a place at once
		free(t, first)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				time.Sleep(100 * time.Millisecond)
				_, _ = next(ctx, r)
				return driver.Result{}, errCut
			}
			g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		})
		one := begin(t.Context(), b.Lock, "k").waits(t)
		two := begin(t.Context(), b.Lock, "k", distlock.TTL(10*time.Second)).waits(t)
		if err := one.refused(t, distlock.ErrUnknown, errCut); errors.Is(err, distlock.ErrUnavailable) {
			t.Errorf("it is not known whether anything was changed: %v", err)
		}
		g.expect(t, 1, 0)
		g.thaw()
		time.Sleep(time.Minute) // the claim ends by itself
		free(t, two.now(t))
		g.empty(t, a, b)
	})
}

// A call that leaves while the store is asked for it does not wait for the answer, whoever stands behind it.
func TestLocker_Lock_cancelledBeforeAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		one := begin(ctx, b.Lock, "k").waits(t)
		two := begin(t.Context(), b.Lock, "k", distlock.TTL(10*time.Second)).waits(t)
		asked := make(chan struct{}, 1)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
				select {
				case asked <- struct{}{}:
				default:
				}
				<-ctx.Done()
				return driver.Result{}, ctx.Err()
			}
		})
		<-asked
		left := time.Now()
		cancel()
		if err := one.refused(t, distlock.ErrHeld, context.Canceled); errors.Is(err, distlock.ErrUnknown) {
			t.Errorf("its place is given up: %v", err)
		}
		if took := time.Since(left); took > 0 {
			t.Errorf("it took %v to leave", took)
		}
		g.thaw()
		free(t, first)
		free(t, two.granted(t))
		g.empty(t, a, b)
	})
}

// A ctx that ends together with the lease it was made for must not bring the Locker to a
// halt: to look at it is to look at the lease.
func TestLocker_Lock_underLostLease(t *testing.T) {
	for range 50 {
		inBubble(t, func(t *testing.T, g *gate) {
			must(t)(g.locker(t).Lock(t.Context(), "taken", distlock.TTL(time.Hour)))
			var calls []*call
			for i := range 20 { // each of them may be the first to see its loss, before any timer
				l := g.locker(t)
				lease := must(t)(l.Lock(t.Context(), fmt.Sprint(i), distlock.TTL(10*time.Second), distlock.NoRenewal()))
				parent, cancel := context.WithTimeout(t.Context(), 9*time.Second) // TTL less margin
				defer cancel()
				calls = append(calls, begin(lease.Context(parent), l.Lock, "taken").waits(t))
			}
			for _, c := range calls {
				c.refused(t, distlock.ErrHeld)
			}
		})
	}
}

// A store's error at the first ask is shown at once: a wrong password would not get better.
func TestLocker_Lock_firstError(t *testing.T) {
	for _, definite := range []bool{true, false} {
		t.Run(fmt.Sprintf("definite %v", definite), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				wrong := errors.New("wrong password")
				if definite {
					wrong = fmt.Errorf("%w: wrong password", driver.ErrUnavailable)
				}
				g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
					return driver.Result{}, wrong
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c := begin(ctx, l.Lock, "k")
				c.refused(t, wrong, distlock.ErrUnavailable)
				c.within(t, 0, 0)
				want := "acquire 1, renew 0, release 0"
				if !definite {
					want = "acquire 2, renew 0, release 1"
				}
				if s := g.total(); s != want {
					t.Errorf("%s, want %s", s, want)
				}
				var op *distlock.OpError
				if !errors.As(c.err, &op) || op.Op != "acquire" || op.Name != "k" {
					t.Errorf("%+v", op)
				}
				g.empty(t, l)
			})
		})
	}
}

// A store's error while waiting is not the end of the wait, and not forgotten when it ends.
func TestLocker_Lock_laterErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		patient := begin(t.Context(), b.Lock, "k").waits(t)
		fail := func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
			return driver.Result{}, errCut
		}
		g.set(func(g *gate) { g.acquire = fail })
		time.Sleep(time.Minute)
		patient.waits(t)
		g.thaw()
		time.Sleep(longestPoll)
		free(t, first)
		free(t, patient.now(t))

		first = must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		_, err := func() (*distlock.Lease, error) {
			c := begin(t.Context(), b.Lock, "k", distlock.MaxWait(time.Minute)).waits(t)
			g.set(func(g *gate) { g.acquire = fail })
			<-c.done
			return c.lease, c.err
		}()
		wants(t, err, distlock.ErrHeld, errCut, context.DeadlineExceeded)
		g.thaw()
		free(t, first)
		g.empty(t, a, b)
	})
}

// What cannot be found out is asked again, undone, or reported.
func TestLocker_Lock_unknown(t *testing.T) {
	type loses struct {
		replies, releases int
		then              error // what comes instead of the next reply
	}
	for _, c := range []struct {
		name  string
		loses loses
		err   error
		calls string
		held  int
	}{
		{"one reply lost", loses{1, 0, nil}, nil, "acquire 2, renew 0, release 0", 1},
		{"both replies lost", loses{2, 0, nil}, distlock.ErrUnavailable, "acquire 2, renew 0, release 1", 0},
		{"not withdrawn", loses{2, 1, nil}, distlock.ErrUnknown, "acquire 2, renew 0, release 1", 1},
		{"one reply lost, then unavailable", loses{1, 0, driver.ErrUnavailable}, distlock.ErrUnavailable, "acquire 2, renew 0, release 1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				replies, releases := c.loses.replies, c.loses.releases
				owners := map[string]bool{}
				var fences []uint64
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					res, err := next(ctx, r)
					owners[r.Owner] = true
					fences = append(fences, res.Fence)
					if replies--; replies >= 0 {
						return driver.Result{}, errCut
					}
					if c.loses.then != nil {
						return driver.Result{}, c.loses.then
					}
					return res, err
				}
				g.release = func(_ context.Context, _ driver.ID, next func() error) error {
					if releases--; releases >= 0 {
						return errCut
					}
					return next()
				}
				lease, err := l.Lock(t.Context(), "k")
				if s := g.total(); s != c.calls {
					t.Errorf("%s, want %s", s, c.calls)
				}
				if len(owners) != 1 || fences[0] != fences[1] {
					t.Errorf("%d owners, fences %d", len(owners), fences)
				}
				g.expect(t, c.held, 0)
				if c.err == nil {
					if must(t)(lease, err).Fence() != fences[0] {
						t.Errorf("fence %d, want %d", lease.Fence(), fences[0])
					}
					free(t, lease)
					g.empty(t, l)
					return
				}
				wants(t, err, c.err)
				if errors.Is(err, distlock.ErrHeld) {
					t.Error(err)
				}
			})
		})
	}
}

// An answer that comes when it can no longer be trusted is no grant.
func TestLocker_Lock_lateAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(2*time.Second))
		late := func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			res, err := next(ctx, r)
			time.Sleep(1900 * time.Millisecond) // the TTL, less than the margin before its end
			return res, err
		}
		g.acquire = late
		_, err := l.Lock(t.Context(), "k")
		wants(t, err, distlock.ErrUnavailable)
		g.empty(t, l)

		// While waiting, the same owner asks again.
		g.thaw()
		a := g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		c := begin(t.Context(), l.Lock, "k").waits(t)
		g.set(func(g *gate) { g.acquire = late })
		free(t, first)
		time.Sleep(10 * time.Second)
		c.waits(t)
		g.expect(t, 1, 0)
		g.thaw()
		lease := c.granted(t)
		if !lease.Valid(1500 * time.Millisecond) {
			t.Errorf("%v left of a lease that was just granted", time.Until(lease.Until()))
		}
		free(t, lease)
		g.empty(t, a, l)
	})
}

func TestWait(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t, distlock.MaxWait(3*time.Second))
		first := must(t)(a.Lock(t.Context(), "k"))
		for _, c := range []struct {
			opts  []distlock.Option
			wait  time.Duration
			cause error
		}{
			{nil, 3 * time.Second, context.DeadlineExceeded},
			{[]distlock.Option{distlock.MaxWait(time.Millisecond)}, time.Millisecond, context.DeadlineExceeded},
			{[]distlock.Option{distlock.MaxWait(0)}, 0, nil},
		} {
			call := begin(t.Context(), b.Lock, "k", c.opts...)
			err := call.refused(t, distlock.ErrHeld)
			if c.cause != nil {
				wants(t, err, c.cause)
			}
			call.within(t, c.wait, c.wait)
			g.expect(t, 1, 0)
		}
		free(t, first)
		free(t, must(t)(b.Lock(t.Context(), "k"))) // what bounds the wait does not bound the lease
		g.empty(t, a, b)
	})
}

// deaf makes a store that sends no notifications.
func (g *gate) deaf() {
	g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return nil }
}

// A call gives up after n attempts with the pauses of Backoff in between, and its queue entry with
// it. The attempt that follows the start of the watch does not count.
func TestMaxAttempts(t *testing.T) {
	const pause = 200 * time.Millisecond
	for _, deaf := range []bool{false, true} {
		for _, n := range []int{1, 2, 5} {
			t.Run(fmt.Sprint(n, " ", deaf), func(t *testing.T) {
				inBubble(t, func(t *testing.T, g *gate) {
					if deaf {
						g.deaf()
					}
					a, b := g.locker(t), g.locker(t)
					first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
					for round := range 2 { // the second finds the name contended
						g.reset()
						c := begin(t.Context(), b.Lock, "k", distlock.MaxAttempts(n), distlock.Backoff(pause, pause))
						err := c.refused(t, distlock.ErrHeld)
						if errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						most := n + 1
						if n == 1 || round > 0 {
							most = n
						}
						if asks := g.count("acquire"); asks != most {
							t.Errorf("%d calls of the store, want %d", asks, most)
						}
						g.expect(t, 1, 0)
						c.within(t, time.Duration(n-1)*pause, time.Duration(n-1)*pause)
					}
					free(t, first)
					g.empty(t, a, b)
				})
			})
		}
	}
}

// Three attempts 200 ms apart acquire a lock that becomes free after 300 ms, also where a store
// sends notifications for nothing meanwhile.
func TestMaxAttempts_freeInTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		watch  func(g *gate)
		grants time.Duration
		late   time.Duration
	}{
		{"notified", func(*gate) {}, 300 * time.Millisecond, 0},
		{"polled", (*gate).deaf, 400 * time.Millisecond, 0},
		{"notified for nothing", func(g *gate) {
			g.watch = func(ctx context.Context, _ driver.ID, next func() <-chan driver.Wake) <-chan driver.Wake {
				wakes := make(chan driver.Wake)
				go func() {
					for tick := time.NewTicker(50 * time.Millisecond); ; {
						select {
						case <-tick.C:
						case <-ctx.Done():
							return
						}
						select {
						case wakes <- driver.Wake{}:
						case <-ctx.Done():
							return
						}
					}
				}()
				return wakes
			}
		}, 300 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				c.watch(g)
				a, b := g.locker(t), g.locker(t)
				first := must(t)(a.Lock(t.Context(), "k"))
				call := begin(t.Context(), b.Lock, "k", distlock.MaxAttempts(3), distlock.Backoff(200*time.Millisecond, 200*time.Millisecond))
				time.Sleep(300 * time.Millisecond)
				free(t, first)
				free(t, call.granted(t))
				call.within(t, c.grants, c.grants+c.late)
				g.empty(t, a, b)
			})
		})
	}
}

// Attempts behind another call of the same process count too, and need no store.
func TestMaxAttempts_sameProcess(t *testing.T) {
	const pause = 200 * time.Millisecond
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				opts := []distlock.Option{distlock.MaxAttempts(n), distlock.Backoff(pause, pause)}
				first := must(t)(l.Lock(t.Context(), "k"))
				g.reset()
				calls := []*call{begin(t.Context(), l.Lock, "k", opts...), begin(t.Context(), l.Lock, "k", opts...)}
				for _, c := range calls {
					c.refused(t, distlock.ErrHeld)
					c.within(t, time.Duration(n-1)*pause, time.Duration(n-1)*pause)
				}
				if asked := g.count("acquire"); asked != 0 {
					t.Errorf("the store was called %d times", asked)
				}
				free(t, first)
				g.empty(t, l)
			})
		})
	}
}

// A pause that is longer than the life of a queue entry is kept: the attempts that renew the entry
// do not count.
func TestMaxAttempts_longPause(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(24*time.Hour)))
		c := begin(t.Context(), b.Lock, "k", distlock.MaxAttempts(3), distlock.Backoff(time.Minute, time.Minute))
		c.refused(t, distlock.ErrHeld)
		c.within(t, 2*time.Minute, 2*time.Minute)
		free(t, first)
		g.empty(t, a, b)
	})
}

// A waiter is served with its own pauses when the one before it, whose pauses were longer, gives
// up.
func TestBackoff_afterAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.deaf()
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		slow := begin(ctx, b.Lock, "k", distlock.Backoff(time.Minute, time.Minute)).waits(t)
		quick := begin(t.Context(), b.Lock, "k", distlock.Backoff(10*time.Millisecond, 10*time.Millisecond)).waits(t)
		cancel()
		slow.refused(t, context.Canceled)
		free(t, first)
		free(t, quick.granted(t))
		quick.within(t, 0, 10*time.Millisecond)
		g.empty(t, a, b)
	})
}

// An attempt that failed counts too.
func TestMaxAttempts_failed(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		g.reset()
		asks := 0
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if asks++; asks > 1 {
				return driver.Result{}, errCut
			}
			return next(ctx, r)
		}
		c := begin(t.Context(), b.Lock, "k", distlock.MaxAttempts(4))
		c.refused(t, distlock.ErrHeld, errCut)
		if asks != 5 { // one of them right after the watch began
			t.Errorf("%d attempts, want 5", asks)
		}
		g.thaw()
		g.expect(t, 1, 0)
		free(t, first)
		g.empty(t, a, b)
	})
}

// The next waiter goes on when one has used up its attempts, even if it wants something else.
func TestMaxAttempts_nextGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.RLock(t.Context(), "k", distlock.TTL(time.Hour)))
		writer := begin(t.Context(), b.Lock, "k", distlock.MaxAttempts(2))
		reader := begin(t.Context(), b.RLock, "k")
		writer.refused(t, distlock.ErrHeld)
		free(t, reader.now(t))
		free(t, first)
		g.empty(t, a, b)
	})
}

// Next to clients of another program, which try every 100 ms and whose releases wake nobody, a
// waiter gets its share.
func TestLocker_Lock_foreignClients(t *testing.T) {
	const others, life, hold = 5, 100 * time.Second, 100 * time.Millisecond
	inBubble(t, func(t *testing.T, g *gate) {
		var key sync.Mutex // what a plain SET NX takes
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if !key.TryLock() {
				return driver.Result{Used: driver.Whole, Blocker: driver.Claim{Holder: "another client", Left: time.Minute}, Retry: time.Minute}, nil
			}
			return next(ctx, r)
		}
		g.release = func(_ context.Context, _ driver.ID, next func() error) error {
			err := next()
			if err == nil {
				key.Unlock()
			}
			return err
		}
		l, end := g.locker(t), time.Now().Add(life)
		var theirs atomic.Int64
		var wg sync.WaitGroup
		for i := range others {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 17 * time.Millisecond)
				for time.Now().Before(end) {
					for !key.TryLock() {
						time.Sleep(100 * time.Millisecond)
					}
					theirs.Add(1)
					time.Sleep(hold)
					key.Unlock()
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		ours := int64(0)
		for time.Now().Before(end) {
			lease := must(t)(l.Lock(t.Context(), "k"))
			ours++
			time.Sleep(hold)
			free(t, lease)
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		if each := theirs.Load() / others; ours < each/2 {
			t.Errorf("%d grants, and %d for each of the others", ours, each)
		}
	})
}

// A poll next to another program obeys a longer Backoff.
func TestLocker_Lock_foreignBackoff(t *testing.T) {
	for _, c := range []struct {
		opts        []distlock.Option
		least, most int
	}{
		{nil, 100, 230}, {[]distlock.Option{distlock.Backoff(2*time.Second, 8*time.Second)}, 3, 7},
	} {
		inBubble(t, func(t *testing.T, g *gate) {
			l := g.locker(t, c.opts...)
			g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
				return driver.Result{Used: driver.Whole, Blocker: driver.Claim{Holder: "another client"}}, nil
			}
			begin(t.Context(), l.Lock, "k", distlock.MaxWait(10*time.Second)).refused(t, distlock.ErrHeld)
			if n := g.count("acquire"); n < c.least || n > c.most {
				t.Errorf("%d attempts in 10 s, want %d to %d", n, c.least, c.most)
			}
		})
	}
}

// A wait that ends reports for how long the holder has had the lock by then, not at the last answer
// of the store.
func TestLocker_Lock_heldUntilNow(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		time.Sleep(100 * time.Millisecond)
		g.set(func(g *gate) {
			g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake {
				return make(chan driver.Wake)
			}
		})
		began := time.Now()
		_, err := b.Lock(t.Context(), "k", distlock.MaxWait(7*time.Second), distlock.Backoff(time.Hour, time.Hour))
		var held *distlock.HeldError
		if !errors.As(err, &held) || time.Since(began) != 7*time.Second {
			t.Fatal(err, time.Since(began))
		}
		if held.Held != 7100*time.Millisecond || held.Left > 23*time.Second || held.Left < 22*time.Second {
			t.Errorf("%v: held for %v, %v left", err, held.Held, held.Left)
		}
		free(t, first)
	})
}

// An end that has passed without an answer of the store is shown as near, not as none: the holder
// may be another program, and then 0 is "no expiry".
func TestLocker_Lock_heldPastItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.set(func(g *gate) {
			g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
				return driver.Result{Blocker: driver.Claim{Key: "k", Holder: "another client", Left: time.Second}}, nil
			}
			g.watch = func(context.Context, driver.ID, func() <-chan driver.Wake) <-chan driver.Wake { return nil }
		})
		_, err := g.locker(t).Lock(t.Context(), "k", distlock.MaxWait(2*time.Second), distlock.Backoff(time.Hour, time.Hour))
		var held *distlock.HeldError
		if !errors.As(err, &held) || held.Held != 0 || held.Left != time.Millisecond {
			t.Errorf("%v", err)
		}
	})
}

// An error says once that the context has ended.
func TestLocker_Lock_oneDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
				<-ctx.Done()
				return driver.Result{}, ctx.Err()
			}
		})
		for name, opts := range map[string][]distlock.Option{"Lock": nil, "TryLock": {distlock.MaxWait(0)}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := l.Lock(ctx, "k", opts...)
			cancel()
			wants(t, err, context.DeadlineExceeded)
			if n := strings.Count(err.Error(), context.DeadlineExceeded.Error()); n != 1 {
				t.Errorf("%s: %d times in %q", name, n, err)
			}
		}
	})
}

// A plain Redis key has an owner, and may have no end. Of an advisory lock of another process the
// store knows neither.
func TestLocker_Lock_heldWithoutExpiry(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		for want, blocker := range map[string]driver.Claim{
			`distlock: "k" is held by another client, no expiry`: {Key: "k", Owner: "c0ffee00", Holder: "another client"},
			`distlock: "k" is held by another client, 5s left`:   {Key: "k", Owner: "c0ffee00", Holder: "another client", Left: 5 * time.Second},
			`distlock: "k" is held by app (server process 7)`:    {Key: "k", Holder: "app (server process 7)"},
		} {
			g.set(func(g *gate) {
				g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
					return driver.Result{Blocker: blocker}, nil
				}
			})
			if _, err := l.TryLock(t.Context(), "k"); !errors.Is(err, distlock.ErrHeld) || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}
