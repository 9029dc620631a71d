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

// longestPoll is the longest delay of a waiter that gets no notification: the longest pause of the
// default backoff.
const longestPoll = time.Second

// A waiter of another process is granted at the moment of the release: the store notifies it, and
// it does not wait for its next poll.
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

// A notification that never comes delays the grant until the next poll.
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

// An answer with the longest possible Retry does not make the waiter attempt at once.
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
			t.Errorf("%d attempts in 10 s", n)
		}
		free(t, first)
		free(t, c.granted(t))
		g.empty(t, a, b)
	})
}

// A waiter with many others before it attempts just often enough to keep its queue entry, also if
// blockers end all the time. Near the head it attempts when a blocker ends.
func TestLocker_Lock_farFromTheHead(t *testing.T) {
	for _, c := range []struct{ ahead, least, most int }{{17, 19, 28}, {16, 280, 320}} {
		inBubble(t, func(t *testing.T, g *gate) {
			a, b := g.locker(t), g.locker(t)
			first := must(t)(a.Lock(t.Context(), "k"))
			g.set(func(g *gate) {
				g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
					res, err := next(ctx, r)
					if !res.Granted {
						res.Ahead, res.Retry = c.ahead, 100*time.Millisecond
					}
					return res, err
				}
			})
			waiter := begin(t.Context(), b.Lock, "k").waits(t)
			g.reset()
			time.Sleep(30 * time.Second)
			if n := g.count("acquire"); n < c.least || n > c.most {
				t.Errorf("%d ahead: %d attempts in 30 s, want %d to %d", c.ahead, n, c.least, c.most)
			}
			free(t, first)
			free(t, waiter.now(t))
			g.empty(t, a, b)
		})
	}
}

// Waiters of a process with many others before them attempt at the same times, if the store batches
// attempts.
func TestLocker_Lock_farTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		times := map[time.Time]int{}
		g.set(func(g *gate) {
			g.features = func(f *driver.Features) { f.Batch = true }
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				g.mu.Lock()
				times[time.Now()]++
				g.mu.Unlock()
				res, err := next(ctx, r)
				if !res.Granted {
					res.Ahead = 17
				}
				return res, err
			}
		})
		first := must(t)(g.locker(t).Lock(t.Context(), "k"))
		var waiters []*call
		for range 200 {
			waiters = append(waiters, begin(t.Context(), g.locker(t).Lock, "k").waits(t))
			time.Sleep(time.Millisecond)
		}
		g.mu.Lock()
		clear(times)
		g.mu.Unlock()
		time.Sleep(3 * time.Second)
		g.mu.Lock()
		n, apart := 0, len(times)
		for _, at := range times {
			n += at
		}
		g.mu.Unlock()
		if n < 350 || apart > 151 {
			t.Errorf("%d attempts in 3 s, at %d times, want at least 350 at 151 times or fewer", n, apart)
		}
		free(t, first)
		for _, w := range waiters {
			free(t, w.now(t))
		}
	})
}

// A notification for nothing costs one attempt and is no grant.
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
			t.Errorf("%d attempts for 10 notifications", n)
		}
		free(t, first)
		wake <- driver.Wake{}
		free(t, c.now(t))
	})
}

// A wait costs the store few calls, however long it lasts.
func TestLocker_Lock_pollIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		deaf bool
		opts []distlock.Option
		most int // attempts of one waiting process in 100 s
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
				g.expect(t, 1, 1) // one queue entry for all of them
				time.Sleep(100 * time.Second)
				if n := g.count("acquire"); n > c.most || n < 5 {
					t.Errorf("%d attempts in 100 s, want 5 to %d", n, c.most)
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

// A release between the refusal and the watch is not missed.
func TestLocker_Lock_watchesBeforeItAttempts(t *testing.T) {
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

// The next waiter is granted when the TTL of a crashed holder ends.
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

// A waiter that died is skipped when its queue entry expires.
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

// A queue entry outlives its waiter by half a minute at most, however long the pauses of its
// Backoff are.
func TestLocker_Lock_entryIsShort(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t, distlock.Backoff(time.Hour, time.Hour))
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(24*time.Hour)))
		c := begin(t.Context(), b.Lock, "k").waits(t)
		for range 100 {
			time.Sleep(time.Minute)
			why, err := b.Status(t.Context(), distlock.KindLock, "k")
			if err != nil || len(why.Waiters) != 1 || why.Waiters[0].Left > 30*time.Second || why.Waiters[0].Held < time.Minute {
				t.Fatal(why, err)
			}
		}
		free(t, first)
		free(t, c.now(t))
		g.empty(t, a, b)
	})
}

// A queue entry is kept as long as its process waits, and no longer.
func TestLocker_Lock_keepsItsEntry(t *testing.T) {
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

// Readers of all processes are granted together.
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
			c.now(t) // all of them are granted before one of them unlocks
		}
		g.expect(t, 30, 0)
		for _, c := range readers {
			free(t, c.lease)
		}
		g.empty(t, lockers...)
	})
}

// Readers that come after a writer wait for the writer: a stream of readers does not starve it.
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

// A writer gives up. The readers behind it are granted at once if only readers hold the lock.
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

// A reader was refused because of a writer of its own process that came after it. The reader is
// granted first, and does not wait for its next poll.
func TestLocker_RLock_cameBeforeWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.RLock(t.Context(), "k"))
		slow := make(chan struct{})
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if r.Weight == 1 && r.QueueTTL == 0 {
				<-slow // the writer's queue entry is in the store before this
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

// A cancelled wait leaves nothing behind. Its error says that the lock is held and why the wait
// ended.
func TestLocker_Lock_cancelled(t *testing.T) {
	why := errors.New("no longer wanted")
	for _, where := range []string{"in the queue of its own process", "while the runner sleeps", "while the runner attempts", "Wait"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t, distlock.Holder("me")), g.locker(t)
				first := must(t)(a.Lock(t.Context(), "k"))
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				l, want, opts := b, why, []distlock.Option(nil)
				switch where {
				case "in the queue of its own process":
					l = a
				case "Wait":
					opts, want = append(opts, distlock.MaxWait(time.Second)), context.DeadlineExceeded
				}
				c := begin(ctx, l.Lock, "k", opts...).waits(t)
				if where == "while the runner attempts" {
					g.set(func(g *gate) {
						g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
							<-ctx.Done() // and the store still gets the request
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
					t.Errorf("%+v does not have the holder", held)
				}
				if where != "Wait" && time.Since(start) != 0 {
					t.Errorf("Lock returned %v after its ctx", time.Since(start))
				}
				g.expect(t, 1, 0) // at once, not later
				g.mend()
				free(t, first)
				g.empty(t, a, b)
			})
		})
	}
}

// A call whose ctx has ended before it begins does nothing.
func TestLocker_Lock_ctxHasEnded(t *testing.T) {
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

// A ctx that ends during the first attempt ends the call, and the claim of the attempt is released.
func TestLocker_Lock_cancelledInFirstAttempt(t *testing.T) {
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
				g.mend()
				free(t, next.granted(t))
				g.empty(t, l)
			})
		})
	}
}

// With a store that does not answer, Lock returns at most a second after its ctx. Its error says
// that the outcome is unknown.
func TestLocker_Lock_cancelledWhileFrozen(t *testing.T) {
	for _, when := range []string{"first attempt", "waiting", "waiting locally"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t), g.locker(t)
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				var c, other *call
				switch when {
				case "first attempt":
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
					most = 4 * time.Second // the other waiter keeps the queue entry
				} else {
					wants(t, err, distlock.ErrUnknown)
				}
				if when != "first attempt" {
					wants(t, err, distlock.ErrHeld)
				}
				c.within(t, 4*time.Second, most)
				g.mend()
				time.Sleep(time.Minute) // claims and queue entries expire
				if other != nil {
					_ = a.Close(t.Context()) // its lease is lost or kept by now
					free(t, other.granted(t))
				}
			})
		})
	}
}

// A waiter that leaves does not disturb the others.
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

// A waiter that is cancelled at the very moment of its grant gets the lease, or the claim is
// released.
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
				time.Sleep(time.Second) // the tenure has to be reacquired
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
			g.mend()
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
		t.Errorf("%d granted, %d refused: the test hardly met that moment", granted, refused)
	}
}

// The error of a wait does not report an attempt that was cancelled because another waiter left.
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
		cancel() // cancels the attempt
		synctest.Wait()
		patient := begin(t.Context(), b.Lock, "k").waits(t)
		next := begin(t.Context(), b.Lock, "k", distlock.MaxWait(10*time.Millisecond))
		if err := next.refused(t, distlock.ErrHeld, context.DeadlineExceeded); errors.Is(err, context.Canceled) {
			t.Errorf("%v: its ctx was not cancelled", err)
		}
		c.refused(t, distlock.ErrHeld, context.Canceled)
		g.mend()
		time.Sleep(10 * time.Second) // the attempt that hangs times out and is repeated
		free(t, first)
		free(t, patient.now(t)) // with its own queue entry
		g.empty(t, a, b)
	})
}

// The error of a wait that cannot release its queue entry is ErrUnknown.
func TestLocker_Lock_notWithdrawn(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		_, err := b.Lock(t.Context(), "k", distlock.MaxWait(time.Second))
		wants(t, err, distlock.ErrHeld, distlock.ErrUnknown, errCut, context.DeadlineExceeded)
		g.expect(t, 1, 1)
		time.Sleep(3 * time.Second) // then the entry expires
		g.expect(t, 1, 0)
		g.mend()
		free(t, first)
		g.empty(t, a, b)
	})
}

// The same holds if the next waiter of the process cannot use the queue entry.
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
		g.mend()
		free(t, first)
		free(t, two.granted(t)) // the entry that is left expires
		g.empty(t, a, b)
	})
}

// A call whose claim may have been granted without its knowledge does not report that nothing was
// changed, also if another waiter is behind it.
func TestLocker_Lock_unknownBeforeAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		_, err := b.Lock(t.Context(), "k", distlock.MaxWait(time.Millisecond))
		wants(t, err, distlock.ErrHeld) // so the next call attempts with a queue entry at once
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
			t.Errorf("the outcome is unknown, but the error is %v", err)
		}
		g.expect(t, 1, 0)
		g.mend()
		time.Sleep(time.Minute) // the claim expires
		free(t, two.now(t))
		g.empty(t, a, b)
	})
}

// A call whose ctx ends during its attempt does not wait for the answer, also if another waiter is
// behind it.
func TestLocker_Lock_cancelledBeforeAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k", distlock.TTL(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		one := begin(ctx, b.Lock, "k").waits(t)
		two := begin(t.Context(), b.Lock, "k", distlock.TTL(10*time.Second)).waits(t)
		attempted := make(chan struct{}, 1)
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
				select {
				case attempted <- struct{}{}:
				default:
				}
				<-ctx.Done()
				return driver.Result{}, ctx.Err()
			}
		})
		<-attempted
		left := time.Now()
		cancel()
		if err := one.refused(t, distlock.ErrHeld, context.Canceled); errors.Is(err, distlock.ErrUnknown) {
			t.Errorf("its queue entry was released, but the error is %v", err)
		}
		if took := time.Since(left); took > 0 {
			t.Errorf("it took %v to leave", took)
		}
		g.mend()
		free(t, first)
		free(t, two.granted(t))
		g.empty(t, a, b)
	})
}

// A ctx of a lease ends together with the lease. The Locker must not block when it looks at such a
// ctx, because the ctx looks at the lease.
func TestLocker_Lock_underLostLease(t *testing.T) {
	for range few(50) {
		inBubble(t, func(t *testing.T, g *gate) {
			must(t)(g.locker(t).Lock(t.Context(), "taken", distlock.TTL(time.Hour)))
			var calls []*call
			for i := range 20 { // each of them may be the first to detect its loss, before any timer
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

// Lock returns a store's error of the first attempt at once: a wrong password stays wrong.
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

// A store's error does not end a wait that has begun. The error of the wait contains it.
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
		g.mend()
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
		g.mend()
		free(t, first)
		g.empty(t, a, b)
	})
}

// An attempt with an unknown outcome is repeated, undone, or reported.
func TestLocker_Lock_unknown(t *testing.T) {
	type loses struct {
		replies, releases int
		then              error // the result instead of the next reply
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

// An answer that comes too late to be trusted is no grant.
func TestLocker_Lock_lateAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(2*time.Second))
		late := func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			res, err := next(ctx, r)
			time.Sleep(1900 * time.Millisecond) // the rest of the TTL is shorter than the margin
			return res, err
		}
		g.acquire = late
		_, err := l.Lock(t.Context(), "k")
		wants(t, err, distlock.ErrUnavailable)
		g.empty(t, l)

		// While waiting, the same owner attempts again.
		g.mend()
		a := g.locker(t)
		first := must(t)(a.Lock(t.Context(), "k"))
		c := begin(t.Context(), l.Lock, "k").waits(t)
		g.set(func(g *gate) { g.acquire = late })
		free(t, first)
		time.Sleep(10 * time.Second)
		c.waits(t)
		g.expect(t, 1, 0)
		g.mend()
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
		free(t, must(t)(b.Lock(t.Context(), "k"))) // MaxWait does not bound the lease
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
						if calls := g.count("acquire"); calls != most {
							t.Errorf("%d calls of the store, want %d", calls, most)
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
				if n := g.count("acquire"); n != 0 {
					t.Errorf("the store was called %d times", n)
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

// A waiter with short pauses polls with them when the waiter before it, with longer pauses, gives
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
		attempts := 0
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if attempts++; attempts > 1 {
				return driver.Result{}, errCut
			}
			return next(ctx, r)
		}
		c := begin(t.Context(), b.Lock, "k", distlock.MaxAttempts(4))
		c.refused(t, distlock.ErrHeld, errCut)
		if attempts != 5 { // one of them right after the watch began
			t.Errorf("%d attempts, want 5", attempts)
		}
		g.mend()
		g.expect(t, 1, 0)
		free(t, first)
		g.empty(t, a, b)
	})
}

// The next waiter continues when one has used up its attempts, also if it wants another claim.
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

// Clients of another program try every 100 ms, and their releases send no notification. A waiter
// next to them gets its share.
func TestLocker_Lock_foreignClients(t *testing.T) {
	const others, life, hold = 5, 100 * time.Second, 100 * time.Millisecond
	inBubble(t, func(t *testing.T, g *gate) {
		var key sync.Mutex // the key of a plain SET NX
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
