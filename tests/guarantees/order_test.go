package guarantees_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

var restarts = flag.Int("restarts", 8,
	"number of restarts or failovers, each between two grants; make nightly has 100")

// Fences rise over many restarts and failovers. Each of them may lose the claims.
func TestOrder(t *testing.T) {
	t.Parallel()
	// order acquires the key before and after each fault, with no release in between.
	order := func(t *testing.T, l func() *distlock.Locker, n int, fault func(i int)) {
		var f fences
		for i := range n {
			// The claim may survive the fault, so its TTL is short.
			lease := persist(t, l(), "key", distlock.NoRenewal())
			f.rise(t, lease)
			fault(i)
			if err := lease.Unlock(t.Context()); err != nil && !errors.Is(err, distlock.ErrLost) &&
				!troubled(err) {
				t.Errorf("Unlock: %v", err)
			}
		}
		f.rise(t, persist(t, l(), "key"))
		t.Logf("%d faults, 0 fences repeated", n)
	}
	const ttl = time.Second
	for name, opts := range map[string][]testenv.Option{"redis, data kept": {testenv.AOF()},
		"redis, data lost": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t, opts...)
			l := locker(t, openURL(t, srv.URL), distlock.TTL(ttl))
			order(t, func() *distlock.Locker { return l }, *restarts,
				func(int) { srv.Kill(); srv.Restart() })
		})
	}
	t.Run("remote", func(t *testing.T) {
		t.Parallel()
		s := sites["remote"](t)
		l := locker(t, s.store(t), distlock.TTL(ttl))
		order(t, func() *distlock.Locker { return l }, *restarts,
			func(int) { s.locks[0].Kill(); s.locks[0].Restart() })
	})
	t.Run("replicated, failovers", func(t *testing.T) {
		t.Parallel()
		r := newReplicas(t)
		r.join(t)
		by := map[*testenv.RedisServer]*distlock.Locker{}
		for _, s := range []*testenv.RedisServer{r.primary, r.replica} {
			by[s] = locker(t, openURL(t, s.URL), distlock.TTL(ttl))
		}
		received, lost := 0, 0 // claims at the new primary; on a busy machine a claim may expire before
		order(t, func() *distlock.Locker { return by[r.primary] }, *restarts, func(i int) {
			cut := i%2 == 1 // the link was cut before the grant
			if !cut {
				r.level(t)
			}
			switch known := do(t, r.replica, "EXISTS", "lock:key") == int64(1); {
			case known && cut:
				t.Error("the replica received the claim although it is cut off")
			case known:
				received++
			case cut:
				lost++
			}
			r.failOver(t)
			if !cut {
				r.link.Cut(testenv.ToClient)
			}
		})
		t.Logf("%d claims were known to the new primary, %d lost", received, lost)
		if received == 0 || lost == 0 {
			t.Error("the failovers were all of one kind")
		}
	})
	t.Run("redlock", func(t *testing.T) {
		t.Parallel()
		s := onNewNodes(t, 3, time.Minute)
		l := locker(t, s.store(t), distlock.TTL(ttl))
		order(t, func() *distlock.Locker { return l }, *restarts,
			func(i int) { s.redis[i%3].Kill(); s.redis[i%3].Restart() })
	})
	for name, mode := range map[string]string{"postgres": "", "advisory": "&lock_mode=advisory"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Postgres(t)
			l := locker(t, openURL(t, srv.URL+mode), distlock.TTL(ttl))
			order(t, func() *distlock.Locker { return l }, *restarts,
				func(int) { srv.Kill(); srv.Restart() })
		})
	}
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		srv := testenv.MariaDB(t)
		l := locker(t, openURL(t, srv.URL), distlock.TTL(ttl))
		order(t, func() *distlock.Locker { return l }, *restarts,
			func(int) { srv.Kill(); srv.Restart() })
	})
	t.Run("postgres, failovers", func(t *testing.T) {
		t.Parallel()
		// Each promotion needs a new standby, which takes a second. The long run has more of them.
		srv := testenv.Postgres(t)
		l := locker(t, openURL(t, srv.URL), distlock.TTL(ttl))
		order(t, func() *distlock.Locker { return l }, max(2, *restarts/10), func(int) {
			standby := testenv.Postgres(t, testenv.StandbyOf(srv))
			srv.Kill()
			standby.Promote()
			srv, l = standby, locker(t, openURL(t, standby.URL), distlock.TTL(ttl))
		})
	})
}
