package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// A server with persistence is killed and restarts. Holders keep their locks, waiters still wait,
// and the TTLs of claims continued to run. Clients are not restarted, and the server has lost the
// scripts.
func TestRestart_durable(t *testing.T) {
	t.Parallel()
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl, fixed = 8 * time.Second, 30 * time.Second // the restart may take seconds
			srv := testenv.Redis(t, testenv.AOF())
			a := locker(t, open(t, srv.Addr), distlock.TTL(ttl))
			b := locker(t, open(t, srv.Addr), distlock.TTL(ttl))
			held := lock(t, a, "held")
			next := wait(t, b, "held")
			lock(t, a, "ran on", distlock.TTL(fixed), distlock.NoRenewal())
			began := time.Now() // or a little earlier

			srv.Kill()
			time.Sleep(200 * time.Millisecond)
			srv.Restart()
			up := time.Now()
			before := time.Since(began)
			left := time.Duration(do(t, srv, "PTTL", "lock:ran on").(int64)) * time.Millisecond
			if left < 0 || left > fixed-before+5*time.Millisecond {
				t.Errorf("%v are left of %v after %v", left, fixed, before)
			}
			fresh := persist(t, a, "other")
			resumed := time.Since(up)
			release(t, fresh)
			if n := calls(t, srv)["eval"]; n == 0 {
				t.Error("no script was sent: the server had not lost them, and this tests nothing")
			}

			time.Sleep(ttl) // a claim without renewal expires in this time
			select {
			case g := <-next:
				t.Fatalf("granted to another process while the lock is held: %v, %v", g.lease, g.err)
			default:
			}
			if err := held.Err(); err != nil {
				t.Fatalf("the claim did not survive: %v", err)
			}
			release(t, held)
			g := granted(t, next, soon)
			if g.lease.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d", g.lease.Fence(), held.Fence())
			}
			t.Logf("down for %v; the first lock %v after the restart; the claim survived",
				up.Sub(began).Round(time.Millisecond), resumed.Round(time.Millisecond))
		})
	}
}

// A server without persistence is killed and restarts. It grants a held lock again, because it has
// lost the claim. Fences still rise, and the first holder is notified at its next renewal.
func TestRestart_forgetful(t *testing.T) {
	t.Parallel()
	const ttl, rounds = 6 * time.Second, 10
	srv := testenv.Redis(t)
	a := locker(t, open(t, srv.Addr), distlock.TTL(ttl))
	b := locker(t, open(t, srv.Addr), distlock.TTL(ttl))
	var f fences
	twice := 0
	for round := range rounds {
		first := persist(t, a, "key")
		f.rise(t, first)
		srv.Kill()
		srv.Restart()
		second := persist(t, b, "key")
		f.rise(t, second)
		if first.Err() == nil {
			twice++
		}
		if round == 0 {
			w := watch(first)
			w.lost(t, soon) // without a call
			var lost *distlock.LostError
			if err := first.Err(); !errors.As(err, &lost) || lost.Reason != distlock.LossTaken {
				t.Errorf("the error of the first lease is %v, want LossTaken", err)
			}
		}
		// A connection that the restart broke may lose the answer of the first call.
		for {
			err := first.Extend(t.Context(), ttl)
			if errors.Is(err, distlock.ErrLost) {
				break
			}
			if !errors.Is(err, distlock.ErrUnknown) && !errors.Is(err, distlock.ErrUnavailable) {
				t.Fatalf("Extend: %v, want ErrLost", err)
			}
		}
		if err := second.Err(); err != nil {
			t.Errorf("the second lease: %v", err)
		}
		release(t, second)
	}
	if twice == 0 {
		t.Error("there were never two holders, so the test shows no broken promise")
	}
	t.Logf("%d restarts, %d fences rose; two holders at the same time in %d of %d: a server without persistence does not promise more", rounds, f.n, twice, rounds)
}
