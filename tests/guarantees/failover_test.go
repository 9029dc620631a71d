package guarantees_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/testenv"
)

// The primary grants a lock and dies before its standby has received the claim. The standby takes
// over and grants the lock again, with a higher fence.
func TestFailover_forgets(t *testing.T) {
	t.Parallel()
	onPairs(t, func(t *testing.T, p *pair) {
		sc := newScene(t)
		p.cut()
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		p.takeOver()
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.twoHolders(first)
		sc.release(second)
	})
}

// A primary that waits for its standby does not grant a lock that the standby has not received.
func TestFailover_acknowledged(t *testing.T) {
	t.Parallel()
	t.Run("replicated", func(t *testing.T) {
		t.Parallel()
		r := newReplicas(t)
		p := r.pair(t)
		careful := locker(t, openURL(t, p.primary.URL+"?lock_replicas=1"))
		unlock(t, persist(t, careful, "key")) // granted while the replica is connected
		r.level(t)
		p.cut()
		lease, err := careful.TryLock(t.Context(), "other")
		if !errors.Is(err, distlock.ErrUnavailable) {
			t.Errorf("a grant that no replica has: %v, %v; want ErrUnavailable", lease, err)
		}
		if v := do(t, r.primary, "EXISTS", "lock:other"); v != int64(0) {
			t.Error("the grant that did not count is left")
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := newStandby(t, "")
		p.synchronous(t)
		sc := newScene(t)
		const ttl = time.Minute // a slow machine needs some time for the promotion
		both := at(t, p.primary.URL, p.primary.Addr, p.standby.Addr) + "&target_session_attrs=read-write"
		held := sc.lock("a", locker(t, openURL(t, both), distlock.TTL(ttl)))
		p.cut()
		// Without the standby a grant is not answered, so the call returns no lease.
		began := time.Now()
		lease, err := locker(t, p.open(t, p.primary),
			distlock.TTL(2*time.Second)).TryLock(t.Context(), "other")
		if err == nil {
			t.Errorf("granted without the standby, fence %d", lease.Fence())
		}
		t.Logf("an attempt without the standby ended after %v: %v",
			time.Since(began).Round(time.Millisecond), err)
		p.takeOver()
		b := locker(t, p.open(t, p.standby), distlock.TTL(ttl))
		next := sc.wait("b", b)    // the standby has the claim
		extend(t, held.Lease, ttl) // at the new primary
		sc.refused(next, 2*time.Second)
		if !held.trusts() {
			t.Errorf("the claim did not survive: %v", held.Err())
		}
		sc.release(held)
		sc.release(sc.granted(next, soon))
		sc.oneHolder()
	})
}

// An operator cancels the statement of a client while it waits for the synchronous standby.
// PostgreSQL reports the commit as done, with a warning, although the standby does not have it.
// PostgreSQL documents this, and no client can detect it.
func TestFailover_cancelled(t *testing.T) {
	t.Parallel()
	p := newStandby(t, "")
	p.synchronous(t)
	sc := newScene(t)
	p.cut()
	a := locker(t, p.open(t, p.primary), distlock.TTL(time.Minute))
	got := make(chan *grant, 1)
	go func() { got <- sc.try("a", a) }()
	var first *grant
	eventually(t, "the first is granted", func() error {
		rows := query(t, p.pg,
			"select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
		select {
		case first = <-got:
			return nil
		default:
			return fmt.Errorf("%d wait for the standby", len(rows))
		}
	})
	if first.err != nil {
		t.Fatal(first.err)
	}
	p.takeOver()
	second := sc.lock("b", locker(t, p.open(t, p.standby)))
	sc.twoHolders(first)
	sc.release(second)
}

// A new primary whose clock is behind, and that has not received the last grants, issues old fences
// again. So does a server that has lost its data in a restart.
func TestFailover_behind(t *testing.T) {
	t.Parallel()
	behind := func(t *testing.T, p *pair, clock *testenv.Clock) {
		sc := newScene(t)
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		p.primary.Kill()
		clock.Set(-time.Hour)
		p.promote()
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.fenceRepeats()
		t.Logf("fence %d after %d", second.Fence(), first.Fence())
	}
	onPairs(t, func(t *testing.T, p *pair) {
		clock := testenv.NewClock(t, p.standby)
		p.join()
		p.cut()
		behind(t, p, clock)
	})
	t.Run("redis without persistence", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Redis(t).Server
		behind(t, &pair{primary: srv, standby: srv, promote: srv.Restart}, testenv.NewClock(t, srv))
	})
}

// Advisory locks are not replicated. A holder whose link to the old primary drops everything still
// trusts its lease, and the new primary grants the lock. A standby that has not received the last
// fences issues them again.
func TestFailover_advisory(t *testing.T) {
	t.Parallel()
	p := newStandby(t, "&lock_mode=advisory")
	proxy := testenv.Proxy(t, p.primary.Addr)
	a := locker(t, openURL(t, at(t, p.primary.URL+p.mode, proxy.Addr)))
	sc := newScene(t)
	p.cut()
	// The server logs 32 numbers of a sequence in advance. Only the numbers after them are lost.
	for range 64 {
		sc.release(sc.lock("a", a))
	}
	first := sc.lock("a", a)
	proxy.Cut(testenv.Both)
	p.promote()
	second := sc.lock("b", locker(t, p.open(t, p.standby)))
	if !first.trusts() {
		t.Errorf("the first holder was already notified: %v", first.Err())
	}
	sc.fenceRepeats()
	if n := sc.verdict().Count[history.I3]; n == 0 {
		t.Error("there were never two holders, so the test shows no broken promise")
	}
	t.Logf("fence %d after %d", second.Fence(), first.Fence())
}

// The standby is promoted while the old primary keeps running, and both grant the lock.
func TestFailover_split(t *testing.T) {
	t.Parallel()
	onPairs(t, func(t *testing.T, p *pair) {
		sc := newScene(t)
		p.cut()
		p.promote()
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.twoHolders(first)
		sc.release(second)
	})
}

// As in TestFailover_split, with min-replicas-to-write. The old primary soon refuses all writes,
// including renewals, so its holder is notified.
func TestFailover_guarded(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	r := newReplicas(t, testenv.Config("min-replicas-to-write 1", "min-replicas-max-lag 1",
		"repl-ping-replica-period 1"))
	r.join(t)
	a := locker(t, openURL(t, r.primary.URL), distlock.TTL(ttl))
	held := persist(t, a, "key")
	r.link.Cut(testenv.Both)
	cut := testenv.NewStopwatch(t)
	do(t, r.replica, "REPLICAOF", "NO", "ONE")
	eventually(t, "the old primary refuses", func() error {
		lease, err := a.TryLock(t.Context(), "other")
		if err == nil {
			return errors.Join(errors.New("granted"), lease.Unlock(t.Context()))
		}
		if !errors.Is(err, distlock.ErrUnavailable) || !strings.Contains(err.Error(), "NOREPLICAS") {
			t.Fatalf("%v, want ErrUnavailable with NOREPLICAS", err)
		}
		return nil
	})
	window := cut.Elapsed() // Redis counts the lag in its own timer, which is late on a busy machine
	select {
	case <-held.Done():
	case <-time.After(ttl + soon):
		t.Error("the holder at the old primary was not notified")
	}
	t.Logf("two primaries for %v; the holder at the old primary was notified after %v",
		window.Round(time.Millisecond), cut.Elapsed().Round(time.Millisecond))
}
