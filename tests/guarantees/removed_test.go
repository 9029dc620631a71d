package guarantees_test

import (
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// An operator deletes a held claim by hand, or a server without persistence loses it in a restart.
// The holder is notified at its next renewal, another process gets the lock, and the fence rises.
func TestRemoved(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	const long = 2 * ttl // a restart may take seconds
	flush := func(t *testing.T, nodes ...*testenv.RedisServer) {
		for _, r := range nodes {
			do(t, r, "FLUSHALL")
		}
	}
	for name, tt := range map[string]struct {
		site   string
		ttl    time.Duration
		remove func(t *testing.T, s *site)
	}{
		"redis, the key": {"redis", ttl,
			func(t *testing.T, s *site) { do(t, s.redis[0], "DEL", "lock:key") }},
		"redis, everything": {"redis", ttl,
			func(t *testing.T, s *site) { flush(t, s.redis[0]) }},
		"redis, restarted without data": {"redis", long,
			func(_ *testing.T, s *site) { s.redis[0].Kill(); s.redis[0].Restart() }},
		"replicated, everything": {"replicated", ttl,
			func(t *testing.T, s *site) { flush(t, s.redis[0]) }},
		"postgres, the rows": {"postgres", ttl,
			func(t *testing.T, s *site) { query(t, s.pg[0], "delete from distlock.claim") }},
		"mariadb, the claims": {"mariadb", ttl, func(t *testing.T, s *site) {
			if _, err := s.maria[0].Query(t.Context(), "UPDATE distlock_claim SET ends = 0"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sites[tt.site](t)
			sc := newScene(t)
			a := locker(t, s.store(t), distlock.TTL(tt.ttl))
			b := locker(t, s.store(t), distlock.TTL(tt.ttl))
			first := sc.lock("a", a)
			next := sc.wait("b", b)
			tt.remove(t, s)
			removed := testenv.NewStopwatch(t)
			select {
			case <-first.Done():
			case <-time.After(soon):
				t.Fatal("the holder was not notified")
			}
			notified := removed.Elapsed()
			if err := first.Err(); !lostTo(distlock.LossTaken, err) {
				t.Errorf("the error of the lease is %v, want LossTaken", err)
			}
			if notified > tt.ttl {
				t.Errorf("notified after %v", notified)
			}
			second := sc.granted(next, soon)
			if second.Fence() <= first.Fence() {
				t.Errorf("fence %d after %d", second.Fence(), first.Fence())
			}
			sc.release(second)
		})
	}
	t.Run("redlock, one node and then a majority", func(t *testing.T) {
		t.Parallel()
		s := sites["redlock"](t)
		sc := newScene(t)
		const ttl = longest
		linked, link := s.through(t)
		a, b := locker(t, linked, distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
		first := sc.lock("a", a)
		spread(t, s.redis)
		next := sc.wait("b", b)
		flush(t, s.redis[0])
		sc.refused(next, ttl+time.Second)
		if !first.trusts() {
			t.Fatalf("with one empty node of three: %v", first.Err())
		}
		// A renewal between the two steps would acquire the first node again.
		link.each(func(p *testenv.ProxyServer) { p.Hold(testenv.Both) })
		flush(t, s.redis[:2]...)
		link.each(func(p *testenv.ProxyServer) { p.Heal() })
		sc.lost(first, soon)
		second := sc.granted(next, 2*soon) // the nodes are new again
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		sc.release(second)
		sc.oneHolder()
	})
}
