package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// A server that keeps its data is killed and comes back: who held holds, who waited waits, and the time of claims
// ran on. Clients are not restarted, and the server has forgotten the scripts.
func TestRestart_durable(t *testing.T) {
	t.Parallel()
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl, fixed = 8 * time.Second, 30 * time.Second // the server may take seconds to come back
			srv := testenv.Redis(t, testenv.AOF())
			a, b := locker(t, open(t, srv.Addr), distlock.TTL(ttl)), locker(t, open(t, srv.Addr), distlock.TTL(ttl))
			held := lock(t, a, "held")
			next := wait(t, b, "held")
			lock(t, a, "ran on", distlock.TTL(fixed), distlock.NoRenewal())
			began := time.Now() // or a little earlier

			srv.Kill()
			time.Sleep(200 * time.Millisecond)
			srv.Restart()
			up := time.Now()
			before := time.Since(began)
			if left := time.Duration(do(t, srv, "PTTL", "lock:ran on").(int64)) * time.Millisecond; left < 0 || left > fixed-before+5*time.Millisecond {
				t.Errorf("%v are left of %v after %v", left, fixed, before)
			}
			fresh := persist(t, a, "other")
			resumed := time.Since(up)
			giveBack(t, fresh)
			if told := calls(t, srv)["eval"]; told == 0 {
				t.Error("nobody told the server a script: it had not forgotten them, and this tests nothing")
			}

			time.Sleep(ttl) // longer than a claim lives that is not renewed
			select {
			case g := <-next:
				t.Fatalf("granted to another while it is held: %v, %v", g.lease, g.err)
			default:
			}
			if err := held.Err(); err != nil {
				t.Fatalf("the claim did not survive: %v", err)
			}
			giveBack(t, held)
			g := granted(t, next, soon)
			if g.lease.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d", g.lease.Fence(), held.Fence())
			}
			t.Logf("gone for %v; the first lock after it %v later; the hold survived", up.Sub(began).Round(time.Millisecond), resumed.Round(time.Millisecond))
		})
	}
}

// A server that keeps nothing is killed and comes back: it grants again what is held, for nobody can know better. Fences
// rise all the same, and the first holder is told at its next renewal.
func TestRestart_forgetful(t *testing.T) {
	t.Parallel()
	const ttl, rounds = 6 * time.Second, 10
	srv := testenv.Redis(t)
	a, b := locker(t, open(t, srv.Addr), distlock.TTL(ttl)), locker(t, open(t, srv.Addr), distlock.TTL(ttl))
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
			w.over(t, soon) // by itself
			var lost *distlock.LostError
			if err := first.Err(); !errors.As(err, &lost) || lost.Reason != distlock.LossTaken {
				t.Errorf("the first holder was told %v, want that it was taken", err)
			}
		}
		// A connection that the restart broke may cost the first call its answer.
		for err := first.Extend(t.Context(), ttl); !errors.Is(err, distlock.ErrLost); err = first.Extend(t.Context(), ttl) {
			if !errors.Is(err, distlock.ErrUnknown) && !errors.Is(err, distlock.ErrUnavailable) {
				t.Fatalf("Extend: %v, want ErrLost", err)
			}
		}
		if err := second.Err(); err != nil {
			t.Errorf("the second lease: %v", err)
		}
		giveBack(t, second)
	}
	if twice == 0 {
		t.Error("never were there two holders: this shows nothing of what is not promised")
	}
	t.Logf("%d restarts, %d fences rose; two holders at once in %d of %d: a server without persistence does not promise more", rounds, f.n, twice, rounds)
}
