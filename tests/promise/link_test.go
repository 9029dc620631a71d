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

// The holder is cut off, both ways or one: then messages still arrive, and must not be taken for an answer. It is told before
// a rival is granted.
func TestCutOff(t *testing.T) {
	t.Parallel()
	const ttl = 1500 * time.Millisecond
	onLinks(t, []string{"replicated", "postgres", "advisory"}, func(t *testing.T, s *site) {
		b := locker(t, s.store(t), distlock.TTL(ttl))
		for name, way := range map[string]testenv.Direction{"both ways": testenv.Both, "requests": testenv.ToServer, "replies": testenv.ToClient} {
			t.Run(name, func(t *testing.T) {
				sc := newScene(t)
				linked, link := s.through(t)
				first := sc.lock("a", locker(t, linked, distlock.TTL(ttl)))
				next := sc.wait("b", b)
				link.each(func(p *testenv.ProxyServer) { p.Cut(way) })
				second := sc.granted(next, soon)
				sc.over(first, soon)
				link.each(func(p *testenv.ProxyServer) { p.Heal() })
				sc.end(second)
				sc.one()
			})
		}
	})
}

// Something on the way, such as a load balancer or a NAT, ends the connection towards the server, and the holder hears nothing of it. A
// claim in a table is none of the connection's, and stays. An advisory lock is free at once, and another is granted it while the
// holder trusts its lease.
func TestCutOff_ended(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	// end has a hold and a call that waits for it, ends the holder's connection on the way, and returns how to let the news through.
	end := func(t *testing.T, s *site, sc *scene) (first *part, next <-chan *part, heal func()) {
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
		first, next, heal := end(t, s, sc)
		sc.refused(next, time.Second)
		heal()
		sc.end(first)
		sc.end(sc.granted(next, soon))
		sc.one()
	})
	onLinks(t, []string{"advisory"}, func(t *testing.T, s *site) {
		sc := newScene(t)
		first, next, heal := end(t, s, sc)
		second := sc.granted(next, soon)
		t.Logf("granted to another with %v of trust left", time.Until(first.Until()).Round(time.Millisecond))
		sc.two(first)
		heal()
		sc.over(first, soon)
		sc.end(second)
	})
}

// One who waits is cut off while the key is given back. When the link heals it asks again, and is granted.
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
		sc.end(first)
		sc.refused(next, 500*time.Millisecond)
		link.each(func(p *testenv.ProxyServer) { p.Heal() })
		healed := time.Now()
		second := sc.granted(next, 2*soon)
		took := time.Since(healed)
		if took > ttl+soon {
			t.Errorf("granted %v after the link healed", took)
		}
		t.Logf("granted %v after the link healed", took.Round(time.Millisecond))
		sc.end(second)
		sc.one()
	})
}

// The way to the store takes longer than a lease lasts: nobody is told of a grant whose trust is over, and what was granted unseen
// is given back. When the way is short again all goes on.
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
				t.Errorf("granted a lease that is over: %v", lease.Err())
			}
			if err == nil {
				t.Errorf("granted over a way of %v with a TTL of %v: it cannot be trusted", 2*ttl, ttl)
			}
			cancel()
		}
		link.each(func(p *testenv.ProxyServer) { p.Latency(0); p.Reset() })
		healed := time.Now()
		unlock(t, persist(t, b, "key"))
		unlock(t, persist(t, a, "key"))
		if took := time.Since(healed); took > 2*ttl+soon {
			t.Errorf("it took %v until all went on", took)
		}
	})
}

// A deaf store loses every wake-up.
type deaf struct{ driver.Store }

func (d deaf) Watch(context.Context, driver.ID) <-chan driver.Wake { return make(chan driver.Wake) }

// All notifications are lost: those who wait ask again within the poll.
func TestDeaf(t *testing.T) {
	t.Parallel()
	const bound = 2 * time.Second // the poll of a second, and one for a busy machine
	test := func(t *testing.T, open func() driver.Store) {
		a := locker(t, open())
		b := locker(t, deaf{open()})
		sc := newScene(t)
		watch := testenv.NewStopwatch(t)
		var worst time.Duration
		for range 3 {
			first := sc.lock("a", a)
			next := sc.wait("b", b)
			time.Sleep(200 * time.Millisecond) // it has asked for the last time before it sleeps
			freed := watch.Elapsed()
			sc.end(first)
			second := sc.granted(next, soon)
			worst = max(worst, watch.Elapsed()-freed)
			sc.end(second)
		}
		if worst > bound || worst < 10*time.Millisecond {
			t.Errorf("a waiter that hears nothing was granted after %v: too late, or it heard something", worst)
		}
		t.Logf("granted after %v at most", worst.Round(time.Millisecond))
		sc.one()
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

// Two processes with many goroutines each want one key at once: all are served, one at a time.
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
		if v := history.Check(rec.History(), history.Rules{Tolerance: 500 * time.Millisecond, Min: history.Minimums{Grants: 2 * each, ContendedWaits: each}}); v.Err() != nil {
			t.Error(v.Err())
		}
	})
}

var cutCount = flag.Int("cuts", 60, "how often TestCuts cuts a connection; make nightly has 1,000")

// Replies are cut off at random bytes. A locker never waits for itself, a grant has one fence, what is not known to be given back is
// told, and fences rise.
func TestCuts(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	cuts := *cutCount
	for name, reply := range map[string]int{"redlock": 72, "postgres": 400, "advisory": 60} { // the bytes of an answer, about
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
			c := &cutter{t: t, l: locker(t, linked, distlock.TTL(ttl)), rival: locker(t, s.store(t), distlock.TTL(ttl)), ttl: ttl}
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
			t.Logf("%d cuts in %d rounds: %d granted, %d in trouble, %d unknown, %d releases asked for twice", cuts, c.rounds, c.grants, c.trouble, c.unknown, c.again)
			if c.grants < cuts/2 || c.seen < cuts/2 {
				t.Errorf("%d grants, %d names seen to be free: too few to mean anything", c.grants, c.seen)
			}
		})
	}
}

// A cutter takes and gives back one name after the other over a link that fails. A rival with a good link looks at what is left.
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
	ctx, cancel := context.WithTimeout(t.Context(), c.ttl/3) // who waits for itself waits for longer
	defer cancel()
	lease, err := c.l.Lock(ctx, name)
	switch {
	case err == nil:
	case errors.Is(err, distlock.ErrUnknown):
		c.unknown++
		return // it may be left, and that was told
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
	// An advisory lock ends with its connection, so it may be gone before it is given back.
	if err != nil && !errors.Is(err, distlock.ErrLost) {
		t.Errorf("%s: Unlock: %v", name, err)
		return
	}
	if next, ok := c.free(name); ok && next <= lease.Fence() {
		t.Errorf("%s: fence %d after %d", name, next, lease.Fence())
	}
}

// free wants a name to be free, for another that has a good link, and returns the fence of its grant. A busy server may leave the
// other without an answer, and then there is none.
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
		c.t.Errorf("%s is left, and nobody was told: %v", name, err)
	}
	return 0, false
}
