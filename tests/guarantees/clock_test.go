package guarantees_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// The clock of the server is set forward past the end of a claim. A server that expires claims by
// the time of day grants the lock to another process, and there are two holders with different
// fences.
func TestClock_forward(t *testing.T) {
	t.Parallel()
	const ttl, jump = time.Minute, 2 * time.Minute
	onEach(t, []string{"redis", "replicated", "postgres", "mariadb"}, func(t *testing.T, s *site) {
		clock := testenv.NewClock(t, s.servers()...)
		sc := newScene(t)
		a, b := locker(t, s.store(t), distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
		first := sc.lock("a", a)
		next := sc.wait("b", b)
		clock.Set(jump)
		second := sc.granted(next, soon)
		sc.twoHolders(first)
		sc.release(second)
		t.Logf("set forward by %v: the second grant came %v before the end of the first holder's trust; fence %d after %d", jump,
			time.Until(first.Until()).Round(time.Second), second.Fence(), first.Fence())
	})
	t.Run("advisory", func(t *testing.T) {
		t.Parallel()
		// The server does not reset its timer for idle connections with every statement. The timer
		// fires where the first statement set it, and then reads from the time of day how long the
		// connection has been idle.
		const ttl, renewal = 12 * time.Second, 7 * time.Second
		s := sites["advisory"](t)
		clock := testenv.NewClock(t, s.servers()...)
		sc := newScene(t)
		linked, link := s.through(t)
		a, b := locker(t, linked, distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
		first := sc.lock("a", a, distlock.NoRenewal())
		next := sc.wait("b", b)
		time.Sleep(renewal)
		extend(t, first.Lease, ttl)
		first.hold.Renew().Extended(first.Until())
		// Otherwise the holder would be notified at once.
		link.each(func(p *testenv.ProxyServer) { p.Hold(testenv.ToClient) })
		clock.Set(jump)
		second := sc.granted(next, soon)
		sc.twoHolders(first)
		t.Logf("set forward by %v: the second grant came %v before the end of the first holder's trust",
			jump, time.Until(first.Until()).Round(time.Millisecond))
		sc.release(second)
	})
}

// The clock of the server is set back. The claim of a dead holder expires later, and the lock is
// not granted before. Fences rise although the clock shows an earlier time.
func TestClock_back(t *testing.T) {
	t.Parallel()
	const ttl, jump = 3 * time.Second, 3 * time.Second
	onEach(t, []string{"redis", "replicated", "redlock", "postgres", "mariadb", "advisory"}, func(t *testing.T, s *site) {
		clock := testenv.NewClock(t, s.servers()...)
		sc := newScene(t)
		if len(s.redis) == 3 {
			aged(t, s.store(t), longest, s.redis) // they lost their data in the restart
		}
		linked, link := s.through(t)
		a, b := locker(t, linked, distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
		first := sc.lock("a", a, distlock.NoRenewal())
		next := sc.wait("b", b)
		clock.Set(-jump)
		link.each(func(p *testenv.ProxyServer) { p.Cut(testenv.Both) })
		set := testenv.NewStopwatch(t)
		sc.lost(first, soon)
		second := sc.granted(next, soon)
		if took := set.Elapsed(); took > ttl+jump+2*time.Second {
			t.Errorf("granted %v after the clock was set back by %v", took, jump)
		} else {
			t.Logf("TTL %v, set back by %v: the next grant came after %v", ttl, jump,
				took.Round(time.Millisecond))
		}
		sc.release(second)
		for range 3 {
			sc.release(sc.lock("b", b))
		}
		sc.oneHolder()
	})
}

// A waiter dies in the queue, and the clock of the server is set back by an hour. The release hands
// the key to the dead waiter for no longer than its queue entry. If the holder also dies and there
// is no release, the dead waiter blocks the queue for no longer than that. A dead writer blocks the
// readers behind it for no longer either, although the readers before it keep the key.
func TestClock_deadWaiter(t *testing.T) {
	t.Parallel()
	const jump, wait = time.Hour, 2 * time.Second
	const atMost = wait + time.Millisecond // a key of Redis exists until its last millisecond has passed
	onEach(t, []string{"redis", "replicated", "postgres", "mariadb"}, func(t *testing.T, s *site) {
		clock := testenv.NewClock(t, s.servers()...)
		store := s.store(t)
		r := func(owner string) driver.Request {
			return driver.Request{ID: driver.ID{Key: "key", Owner: owner}, Weight: driver.Whole,
				Limit: driver.Whole, TTL: time.Minute, QueueTTL: wait}
		}
		request := func(r driver.Request) error {
			res, err := store.Acquire(t.Context(), r)
			if err == nil && !res.Granted {
				err = fmt.Errorf("held for %v more", res.Blocker.Left)
			}
			return err
		}
		acquire := func(owner string) error { return request(r(owner)) }
		eventually(t, "a holder", func() error { return acquire("holder") })
		if err := acquire("dead"); err == nil {
			t.Fatal("two holders")
		}
		clock.Set(-jump)
		eventually(t, "a release", func() error { return store.Release(t.Context(), r("holder").ID) })
		claims, err := driver.Show(t.Context(), store, "key")
		if err != nil || len(claims) != 1 || claims[0].Owner != driver.Tag("dead") ||
			claims[0].Left > atMost {
			t.Fatalf("%+v, %v; want the claim of the dead waiter, for at most %v", claims, err, atMost)
		}
		eventually(t, "the next holder", func() error { return acquire("next") })

		if err := acquire("dead too"); err == nil {
			t.Fatal("two holders")
		}
		clock.Set(-2 * jump)
		eventually(t, "a last renewal", func() error {
			_, err := store.Renew(t.Context(), driver.Renewal{ID: r("next").ID, TTL: wait})
			return err
		})
		eventually(t, "the holder after that", func() error { return acquire("last") })

		reader := func(owner string) driver.Request {
			r := r(owner)
			r.Key, r.Weight = "read", 1
			return r
		}
		eventually(t, "a reader", func() error { return request(reader("reader")) })
		writer := r("dead writer")
		writer.Key = "read"
		if err := request(writer); err == nil {
			t.Fatal("a writer holds next to a reader")
		}
		clock.Set(-3 * jump)
		eventually(t, "a reader behind the writer", func() error { return request(reader("behind")) })
	})
}

// The clock of the server is an hour ahead while a name is used. The name stays unused until the
// server has forgotten it, and then the clock is corrected. The next fence is still higher than the
// last one.
func TestClock_corrected(t *testing.T) {
	t.Parallel()
	const ttl, ahead, unused = 2 * time.Second, time.Hour, 11 * time.Minute
	onEach(t, []string{"redis", "replicated", "redlock", "postgres", "mariadb"}, func(t *testing.T, s *site) {
		clock := testenv.NewClock(t, s.servers()...)
		if len(s.redis) == 3 {
			aged(t, s.store(t), longest, s.redis) // they lost their data in the restart
		}
		l := locker(t, s.store(t), distlock.TTL(ttl))
		fence := func(name string) uint64 {
			t.Helper()
			lease := persist(t, l, name)
			unlock(t, lease)
			return lease.Fence()
		}
		before := map[string]uint64{}
		clock.Set(ahead)
		for _, name := range []string{"a", "b"} {
			for range 3 {
				before[name] = fence(name)
			}
		}
		forget(t, s, func(step int) { clock.Set(ahead + time.Duration(step)*unused) }, "a", "b")
		clock.Set(0)
		for _, name := range []string{"a", "b", "a"} {
			after := fence(name)
			if after <= before[name] {
				t.Errorf("%s: fence %d, lower than the last one by %v", name, after,
					time.Duration(before[name]-after)*time.Microsecond)
			}
			before[name] = after
		}
	})
}

// Not promised: rising fences on a cluster, and for a user who may only access the keys of its own
// names. Such a store keeps no lower bound for fences. The fences of a forgotten name go back with
// the clock.
func TestClock_corrected_noFloor(t *testing.T) {
	t.Parallel()
	const ahead, unused = time.Hour, 11 * time.Minute
	for name, start := range map[string]func(t *testing.T) (servers []*testenv.RedisServer, url string){
		"redis, own names": func(t *testing.T) ([]*testenv.RedisServer, string) {
			r := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all",
				"user app on >secret ~lock:app/* ~{lock:app/* &* +@all"))
			return []*testenv.RedisServer{r}, "redis://app:secret@" + r.Addr
		},
		"replicated, cluster": func(t *testing.T) ([]*testenv.RedisServer, string) {
			c := testenv.RedisCluster(t, testenv.Replicas(0))
			return c.Nodes, testenv.URL("redis+cluster", c.Addrs()...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, url := start(t)
			s := &site{redis: servers}
			clock := testenv.NewClock(t, s.servers()...)
			l := locker(t, openURL(t, url))
			clock.Set(ahead)
			first := persist(t, l, "app/a")
			unlock(t, first)
			clock.Set(ahead + unused)
			for _, r := range servers {
				eventually(t, "the name is forgotten", func() error {
					if n := do(t, r, "DBSIZE"); n != int64(0) { // in a cluster, only one node knows the name
						return fmt.Errorf("%v keys are left", n)
					}
					return nil
				})
			}
			clock.Set(0)
			second := persist(t, l, "app/a")
			if second.Fence() > first.Fence() {
				t.Errorf("fence %d after %d: the fence rose, so the test shows no broken promise",
					second.Fence(), first.Fence())
			}
			unlock(t, second)
		})
	}
}

// forget moves the clock in steps until the servers have forgotten the unused names. On a slow node
// the last grant may come after the first step, which then needs another step.
func forget(t *testing.T, s *site, advance func(step int), names ...string) {
	t.Helper()
	step := 0
	eventually(t, "unused names are forgotten", func() error {
		step++
		advance(step)
		for _, name := range names {
			for _, r := range s.redis {
				if do(t, r, "EXISTS", "{lock:"+name+"}:m") != int64(0) {
					return errors.New(name + " is remembered")
				}
			}
			for _, p := range s.pg {
				query(t, p, "select distlock.sweep(1000)")
				if len(query(t, p, "select key from distlock.key where key = '"+name+"'")) > 0 {
					return errors.New(name + " is remembered")
				}
			}
		}
		return nil
	})
}

// Two of three nodes were first used while their clocks were an hour ahead, and the clocks are
// corrected. The nodes count again after LongestTTL, and not after an hour.
func TestClock_born(t *testing.T) {
	t.Parallel()
	var servers []*testenv.Server
	var addrs []string
	for range 3 {
		r := testenv.Redis(t)
		servers, addrs = append(servers, r.Server), append(addrs, r.Addr)
	}
	ahead, old := testenv.NewClock(t, servers[:2]...), testenv.NewClock(t, servers[2])
	ahead.Set(time.Hour)
	// The nodes record their first use.
	l := locker(t, majority(t, longest, addrs...), distlock.TTL(longest))
	ahead.Set(0)
	old.Set(time.Hour) // the third node is not new: new nodes count at once if all of them are new
	began := time.Now()
	eventually(t, "a majority counts", func() error {
		lease, err := l.TryLock(t.Context(), "key")
		if err == nil {
			unlock(t, lease)
		}
		return err
	})
	if took := time.Since(began); took < longest/2 {
		t.Errorf("granted after %v: the nodes counted from the start, so this tests nothing", took)
	}
}

// The clock of one node of three is set forward. A claim on all nodes stays. A claim on a bare
// majority is granted to another process.
func TestClock_node(t *testing.T) {
	t.Parallel()
	const ttl, jump = 20 * time.Second, time.Minute
	for name, bare := range map[string]bool{"all nodes": false, "bare majority": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var servers []*testenv.RedisServer
			var addrs, through []string
			var last *testenv.ProxyServer
			for range 3 {
				r := testenv.Redis(t)
				last = testenv.Proxy(t, r.Addr)
				servers, addrs, through = append(servers, r), append(addrs, r.Addr), append(through, last.Addr)
			}
			clock := testenv.NewClock(t, servers[0].Server)
			others := testenv.NewClock(t, servers[1].Server, servers[2].Server)
			// Nodes count when they are older than LongestTTL. The clocks make these nodes old.
			clock.Set(-time.Hour)
			others.Set(-time.Hour)
			majority(t, ttl, addrs...) // the nodes record their first use
			clock.Set(0)
			others.Set(0)
			waitCounted(t, majority(t, ttl, addrs...), ttl)

			sc := newScene(t)
			a := locker(t, majority(t, ttl, through...), distlock.TTL(ttl))
			b := locker(t, majority(t, ttl, addrs...), distlock.TTL(ttl))
			var opts []distlock.Option
			if bare {
				last.Refuse()
				opts = append(opts, distlock.NoRenewal()) // a renewal would also acquire the third node
			}
			first := sc.lock("a", a, opts...)
			last.Heal()
			if !bare {
				spread(t, servers)
			}
			next := sc.wait("b", b)
			clock.Set(jump)
			if bare {
				second := sc.granted(next, soon)
				sc.twoHolders(first)
				sc.release(second)
				return
			}
			sc.refused(next, 4*time.Second)
			if !first.trusts() {
				t.Errorf("the claim did not survive the jump: %v", first.Err())
			}
			extend(t, first.Lease, ttl)
			sc.release(first)
			sc.release(sc.granted(next, 2*soon))
			sc.oneHolder()
		})
	}
}
