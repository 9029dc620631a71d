package guarantees_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// ways are the ways to cut off a holder.
var ways = []struct {
	name string
	cut  func(p *testenv.ProxyServer)
}{
	{"both directions dropped", func(p *testenv.ProxyServer) { p.Cut(testenv.Both) }},
	{"replies dropped", func(p *testenv.ProxyServer) { p.Cut(testenv.ToClient) }},
	{"requests dropped", func(p *testenv.ProxyServer) { p.Cut(testenv.ToServer) }},
	{"both directions delayed", func(p *testenv.ProxyServer) { p.Hold(testenv.Both) }},
	{"refused", func(p *testenv.ProxyServer) { p.Refuse() }},
}

// The holder is cut off from the store, in one of several ways, and a rival is not. If messages of
// the holder still arrive, they must not count as an answer. The last moment at which the holder's
// lease was valid comes before the return of the rival's Lock.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		runs   int // advisory: not refused, because the lock ends with its connection; see TestCutOff_ended
		within time.Duration
	}{
		"redis": {10, 3 * time.Second}, "redlock": {10, 3 * time.Second}, "etcd": {20, soon},
		"replicated": {5, soon}, "postgres": {5, soon}, "mariadb": {5, soon}, "advisory": {4, soon}, "remote": {5, soon},
		"remote, from its store": {5, soon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *site
			switch name {
			case "redlock":
				s = onNodes(t, 3, time.Second)
			case "remote, from its store":
				s = behindServers(testenv.Redis(t))
			default:
				s = shared(t, name)
			}
			ttl := s.shortest()
			rng := chance(t)
			rival := locker(t, s.store(t), distlock.TTL(ttl))
			overlaps := make(chan time.Duration, tt.runs)
			t.Run("runs", func(t *testing.T) {
				for run := range tt.runs {
					way, delay := ways[run%len(ways)], upTo(rng, ttl) // anywhere between two renewals
					t.Run(fmt.Sprint(run, " ", way.name), func(t *testing.T) {
						t.Parallel()
						sc := newSceneOf(t, fmt.Sprint("key ", run))
						overlaps <- sc.cutOff(s, rival, ttl, delay, tt.within, way.cut)
					})
				}
			})
			if len(overlaps) != tt.runs {
				t.Fatalf("%d of %d runs ended", len(overlaps), tt.runs)
			}
			most := <-overlaps
			for range tt.runs - 1 {
				most = max(most, <-overlaps)
			}
			t.Logf("%d partitions of a holder, TTL %v: overlap at most %v", tt.runs, ttl,
				most.Round(time.Millisecond))
		})
	}
}

// cutOff cuts off a holder, and returns the time with two holders. A negative result is the time
// without a holder.
func (sc *scene) cutOff(
	s *site, rival *distlock.Locker, ttl, delay, within time.Duration,
	cut func(*testenv.ProxyServer),
) time.Duration {
	t := sc.t
	linked, link := s.through(t)
	holder := locker(t, linked, distlock.TTL(ttl))
	first, next := sc.lock("a", holder), sc.wait("b", rival)
	trusted := watch(first.Lease)
	time.Sleep(delay)
	for end := time.Now().Add(soon); first.Err() != nil; time.Sleep(delay) {
		// The lease was lost in a scheduler stall, and the rival has the key. The run starts again.
		if time.Now().After(end) {
			t.Fatalf("lost again and again before the fault: %v", first.Err())
		}
		trusted.lost(t, soon)
		sc.release(sc.patient(next, soon))
		first, next = sc.lock("a", holder), sc.wait("b", rival)
		trusted = watch(first.Lease)
	}
	link.each(cut)
	clock := testenv.NewStopwatch(t)
	second := sc.patient(next, 3*soon)
	took := clock.Elapsed()
	trusted.lost(t, soon)
	sc.lost(first, soon)
	link.each(func(p *testenv.ProxyServer) { p.Heal() })
	overlap := trusted.last.Sub(second.at)
	if overlap > 0 || second.Fence() <= first.Fence() {
		t.Errorf("two holders for %v, fence %d after %d", overlap, second.Fence(), first.Fence())
	}
	if took > within {
		t.Errorf("the rival was granted after %v", took)
	}
	sc.release(second)
	sc.oneHolder()
	return overlap
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
	onLinks(t, []string{"postgres", "mariadb"}, func(t *testing.T, s *site) {
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
	onLinks(t, []string{"redis", "replicated", "redlock", "postgres", "mariadb", "advisory", "etcd", "remote"}, func(t *testing.T, s *site) {
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
	onLinks(t, []string{"redis", "replicated", "redlock", "postgres", "mariadb", "advisory", "etcd", "remote"}, func(t *testing.T, s *site) {
		ttl := s.shortest()
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
	onLinks(t, []string{"redis", "replicated", "redlock", "postgres", "mariadb", "advisory", "etcd", "remote"}, func(t *testing.T, s *site) {
		test(t, func() driver.Store { return s.store(t) })
	})
}
