package promise_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
	"github.com/distlock/distlock/internal/testenv"
)

// The holder is cut off, in both directions or in one. If messages still arrive, they must not
// count as an answer. The holder is notified before another process gets the lock.
func TestCutOff(t *testing.T) {
	t.Parallel()
	const ttl = 1500 * time.Millisecond
	onLinks(t, []string{"replicated", "postgres", "advisory"}, func(t *testing.T, s *site) {
		b := locker(t, s.store(t), distlock.TTL(ttl))
		for name, way := range map[string]testenv.Direction{"both ways": testenv.Both,
			"requests": testenv.ToServer, "replies": testenv.ToClient} {
			t.Run(name, func(t *testing.T) {
				sc := newScene(t)
				linked, link := s.through(t)
				first := sc.lock("a", locker(t, linked, distlock.TTL(ttl)))
				next := sc.wait("b", b)
				link.each(func(p *testenv.ProxyServer) { p.Cut(way) })
				second := sc.granted(next, soon)
				sc.lost(first, soon)
				link.each(func(p *testenv.ProxyServer) { p.Heal() })
				sc.release(second)
				sc.oneHolder()
			})
		}
	})
}

// A load balancer or a NAT closes the connection towards the server, and the holder does not see
// it. A claim in a table does not depend on the connection, and stays. An advisory lock is free at
// once, and another process gets it while the holder trusts its lease.
func TestCutOff_ended(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	// closeBetween starts a holder and a waiter, and closes the holder's connection in the middle.
	// The function heal lets the holder see it.
	closeBetween := func(t *testing.T, s *site, sc *scene) (first *grant, next <-chan *grant, heal func()) {
		far := testenv.Proxy(t, s.addrs[0])
		near := testenv.Proxy(t, far.Addr)
		first = sc.lock("a", locker(t, s.open(t, near.Addr), distlock.TTL(ttl)))
		next = sc.wait("b", locker(t, s.store(t), distlock.TTL(ttl)))
		near.Hold(testenv.Both)
		far.Reset()
		return first, next, near.Heal
	}
	onLinks(t, []string{"postgres"}, func(t *testing.T, s *site) {
		sc := newScene(t)
		first, next, heal := closeBetween(t, s, sc)
		sc.refused(next, time.Second)
		heal()
		sc.release(first)
		sc.release(sc.granted(next, soon))
		sc.oneHolder()
	})
	onLinks(t, []string{"advisory"}, func(t *testing.T, s *site) {
		sc := newScene(t)
		first, next, heal := closeBetween(t, s, sc)
		second := sc.granted(next, soon)
		t.Logf("another process got the lock with %v of trust left",
			time.Until(first.Until()).Round(time.Millisecond))
		sc.twoHolders(first)
		heal()
		sc.lost(first, soon)
		sc.release(second)
	})
}

// A waiter is cut off while the lock is released. When the link is back, the waiter retries and
// gets the lock.
func TestCutOff_waiter(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	onLinks(t, []string{"redis", "replicated", "redlock", "postgres", "advisory"}, func(t *testing.T, s *site) {
		sc := newScene(t)
		linked, link := s.through(t)
		ttl := min(ttl, longest)
		first := sc.lock("a", locker(t, s.store(t), distlock.TTL(ttl)))
		next := sc.wait("b", locker(t, linked, distlock.TTL(ttl)))
		link.each(func(p *testenv.ProxyServer) { p.Cut(testenv.Both) })
		sc.release(first)
		sc.refused(next, 500*time.Millisecond)
		link.each(func(p *testenv.ProxyServer) { p.Heal() })
		healed := time.Now()
		second := sc.granted(next, 2*soon)
		took := time.Since(healed)
		if took > ttl+soon {
			t.Errorf("granted %v after the link was back", took)
		}
		t.Logf("granted %v after the link was back", took.Round(time.Millisecond))
		sc.release(second)
		sc.oneHolder()
	})
}

// A request to the store takes longer than the TTL. No call returns a lease whose trust has ended,
// and unseen grants are released. When the link is fast again, the lock works again.
func TestSlow(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	onLinks(t, []string{"redis", "replicated", "redlock", "postgres", "advisory"}, func(t *testing.T, s *site) {
		linked, link := s.through(t)
		a, b := locker(t, linked, distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
		unlock(t, persist(t, a, "warm"))
		link.each(func(p *testenv.ProxyServer) { p.Latency(ttl) })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
			lease, err := a.Lock(ctx, "key")
			if err == nil && lease.Err() != nil {
				t.Errorf("granted a lease that has ended: %v", lease.Err())
			}
			if err == nil {
				t.Errorf("granted with a round trip of %v and a TTL of %v: the lease cannot be trusted",
					2*ttl, ttl)
			}
			cancel()
		}
		link.each(func(p *testenv.ProxyServer) { p.Latency(0); p.Reset() })
		healed := time.Now()
		unlock(t, persist(t, b, "key"))
		unlock(t, persist(t, a, "key"))
		if took := time.Since(healed); took > 2*ttl+soon {
			t.Errorf("it took %v until the lock worked again", took)
		}
	})
}

// A deaf store loses every wake-up.
type deaf struct{ driver.Forward }

func (d deaf) Watch(context.Context, driver.ID) <-chan driver.Wake { return make(chan driver.Wake) }

// All notifications are lost. Waiters retry within the poll interval.
func TestDeaf(t *testing.T) {
	t.Parallel()
	const bound = 2 * time.Second // the poll interval of 1 s, and 1 s for a busy machine
	test := func(t *testing.T, open func() driver.Store) {
		a := locker(t, open())
		b := locker(t, deaf{driver.Forward{Store: open()}})
		sc := newScene(t)
		watch := testenv.NewStopwatch(t)
		var worst time.Duration
		for range 3 {
			first := sc.lock("a", a)
			next := sc.wait("b", b)
			time.Sleep(200 * time.Millisecond) // the waiter has made its last attempt before the pause
			freed := watch.Elapsed()
			sc.release(first)
			second := sc.granted(next, soon)
			worst = max(worst, watch.Elapsed()-freed)
			sc.release(second)
		}
		if worst > bound || worst < 10*time.Millisecond {
			t.Errorf("a waiter without notifications was granted after %v: too late, or it got a notification", worst)
		}
		t.Logf("granted after at most %v", worst.Round(time.Millisecond))
		sc.oneHolder()
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := "sqlite:" + t.TempDir() + "/locks.db"
		test(t, func() driver.Store { return openURL(t, file) })
	})
	onLinks(t, []string{"redis", "replicated", "redlock", "postgres", "advisory"}, func(t *testing.T, s *site) {
		test(t, func() driver.Store { return s.store(t) })
	})
}

// Two processes with many goroutines each lock one name at the same time. All are served, one by
// one.
func TestHerd(t *testing.T) {
	t.Parallel()
	const each = 250
	onLinks(t, []string{"replicated", "redlock", "postgres", "advisory"}, func(t *testing.T, s *site) {
		rec := history.New()
		ctx, cancel := context.WithTimeout(t.Context(), 6*soon)
		defer cancel()
		var served, inside atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 2 {
			name := fmt.Sprint("process ", i)
			l := locker(t, s.store(t), distlock.TTL(longest))
			for range each {
				wg.Go(func() {
					var lease *distlock.Lease
					var h *history.Hold
					for lease == nil {
						h = rec.Acquire(history.Want{Client: name, Key: "key", TTL: longest})
						var err error
						lease, err = l.Lock(ctx, "key", distlock.Observe(func(_ context.Context, e distlock.Event) {
							if e.Type == distlock.EventWaiting {
								h.Waiting()
							}
						}))
						if err == nil {
							break
						}
						h.Ended(workload.Outcome(err))
						if !troubled(err) || ctx.Err() != nil { // a busy node may not answer in time
							t.Errorf("Lock: %v", err)
							return
						}
					}
					h.Granted(lease.Fence(), lease.Until())
					if inside.Add(1) != 1 && lease.Err() == nil {
						t.Error("two at once")
					}
					served.Add(1)
					inside.Add(-1)
					call := h.Release()
					call.End(workload.Outcome(lease.Unlock(context.Background())))
				})
			}
		}
		wg.Wait()
		t.Logf("%d served in %v", served.Load(), time.Since(began).Round(time.Millisecond))
		if v := history.Check(rec.History(), history.Rules{Tolerance: 500 * time.Millisecond,
			Min: history.Minimums{Grants: 2 * each, ContendedWaits: each}}); v.Err() != nil {
			t.Error(v.Err())
		}
	})
}

var cutCount = flag.Int("cuts", 60,
	"number of connections that TestCuts cuts; make nightly has 1,000")

// Replies are cut off at random bytes. A locker never waits for its own claim, a grant has one
// fence, a release with an unknown outcome is reported, and fences rise.
func TestCuts(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	cuts := *cutCount
	// The values are the approximate sizes of an answer, in bytes.
	for name, reply := range map[string]int{"redlock": 72, "postgres": 400, "advisory": 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := chance(t)
			var s *site
			if name == "redlock" {
				s = onNewNodes(t)
			} else {
				s = shared(t, name)
			}
			linked, link := s.through(t)
			c := &cutter{t: t, l: locker(t, linked, distlock.TTL(ttl)),
				rival: locker(t, s.store(t), distlock.TTL(ttl)), ttl: ttl}
			unlock(t, persist(t, c.l, "warm"))
			for cut := range cuts {
				fired := link[rng.IntN(len(link))].CutAfter(rng.IntN(reply))
				for done := false; !done; {
					c.round()
					select {
					case <-fired:
						done = true
					default:
					}
				}
				if t.Failed() {
					t.Fatalf("at cut %d", cut)
				}
			}
			t.Logf("%d cuts in %d rounds: %d granted, %d in trouble, %d unknown, %d releases repeated", cuts,
				c.rounds, c.grants, c.trouble, c.unknown, c.again)
			if c.grants < cuts/2 || c.seen < cuts/2 {
				t.Errorf("%d grants, %d names seen free: too few for a result", c.grants, c.seen)
			}
		})
	}
}

// A cutter acquires and releases one name after the other over a link that fails. A rival with a
// good link checks that the names are free.
type cutter struct {
	t        testing.TB
	l, rival *distlock.Locker
	ttl      time.Duration

	rounds, grants, trouble, unknown, again, seen int
}

func (c *cutter) round() {
	t := c.t
	t.Helper()
	c.rounds++
	name := fmt.Sprint("key ", c.rounds)
	// A call that waits for its own claim takes longer.
	ctx, cancel := context.WithTimeout(t.Context(), c.ttl/3)
	defer cancel()
	lease, err := c.l.Lock(ctx, name)
	switch {
	case err == nil:
	case errors.Is(err, distlock.ErrUnknown):
		c.unknown++
		return // a lock may be left, and the error says so
	case errors.Is(err, distlock.ErrUnavailable):
		c.trouble++
		c.free(name)
		return
	default:
		t.Errorf("%s: %v", name, err)
		return
	}
	c.grants++
	if lease.Fence() == 0 {
		t.Errorf("%s: no fence", name)
	}
	err = lease.Unlock(t.Context())
	for try := 1; troubled(err); try++ {
		if try > 5 {
			t.Errorf("%s: released %d times: %v", name, try, err)
			return
		}
		c.again++
		err = lease.Unlock(t.Context())
	}
	// An advisory lock ends with its connection, so it may have ended before the release.
	if err != nil && !errors.Is(err, distlock.ErrLost) {
		t.Errorf("%s: Unlock: %v", name, err)
		return
	}
	if next, ok := c.free(name); ok && next <= lease.Fence() {
		t.Errorf("%s: fence %d after %d", name, next, lease.Fence())
	}
}

// free checks that a name is free for the rival, and returns the fence of the rival's grant. If a
// busy server does not answer the rival, ok is false.
func (c *cutter) free(name string) (fence uint64, ok bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.ttl/3)
	defer cancel()
	lease, err := c.rival.Lock(ctx, name)
	switch {
	case err == nil:
		unlock(c.t, lease)
		c.seen++
		return lease.Fence(), true
	case !troubled(err):
		c.t.Errorf("%s is left, and no error reported it: %v", name, err)
	}
	return 0, false
}
