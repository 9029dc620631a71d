package promise_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A pair is a primary and a standby that can take over, with a link between them that can be cut.
type pair struct {
	primary, standby *testenv.PostgresServer
	link             *testenv.ProxyServer
	mode             string // of the store, for its URL
}

func newPair(t *testing.T, mode string) *pair {
	t.Helper()
	p := &pair{primary: testenv.Postgres(t), mode: mode}
	warm(t, p.open(t, p.primary)) // creates the tables
	p.link = testenv.Proxy(t, p.primary.Addr)
	host, port, _ := strings.Cut(p.link.Addr, ":")
	p.standby = testenv.Postgres(t, testenv.StandbyOf(p.primary),
		testenv.Config(fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=postgres'", host, port)))
	p.level(t)
	return p
}

func (p *pair) open(t testing.TB, srv *testenv.PostgresServer) driver.Store {
	t.Helper()
	return openURL(t, srv.URL+p.mode)
}

// level waits until the standby has all data of the primary.
func (p *pair) level(t *testing.T) {
	t.Helper()
	at := query(t, p.primary, "select pg_current_wal_lsn()")[0][0]
	eventually(t, "the standby has all data", func() error {
		if query(t, p.standby, "select pg_last_wal_replay_lsn() >= '"+at+"'::pg_lsn")[0][0] != "t" {
			return errors.New("it is behind")
		}
		return nil
	})
}

// synchronous makes the primary answer a commit only when the standby has it.
func (p *pair) synchronous(t *testing.T) {
	t.Helper()
	query(t, p.primary, "alter system set synchronous_standby_names = '*'")
	query(t, p.primary, "select pg_reload_conf()")
	eventually(t, "commits wait for the standby", func() error {
		if rows := query(t, p.primary,
			"select 1 from pg_stat_replication where sync_state = 'sync'"); len(rows) == 0 {
			return errors.New("no standby is synchronous")
		}
		return nil
	})
}

// The primary grants a lock and dies before its standby has received the claim. The standby takes
// over and grants the lock again, with a higher fence. With synchronous replication the first grant
// is not answered.
func TestFailover_postgres(t *testing.T) {
	t.Parallel()
	t.Run("async", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "")
		sc := newScene(t)
		p.link.Cut(testenv.ToClient)
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		p.primary.Kill()
		p.standby.Promote()
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.twoHolders(first)
		sc.release(second)
	})
	t.Run("sync", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "")
		p.synchronous(t)
		sc := newScene(t)
		const ttl = time.Minute // a slow machine needs some time for the promotion
		both := at(t, p.primary.URL, p.primary.Addr, p.standby.Addr) + "&target_session_attrs=read-write"
		held := sc.lock("a", locker(t, openURL(t, both), distlock.TTL(ttl)))
		p.link.Cut(testenv.Both)
		// Without the standby a grant is not answered, so the call returns no lease.
		began := time.Now()
		lease, err := locker(t, p.open(t, p.primary),
			distlock.TTL(2*time.Second)).TryLock(t.Context(), "other")
		if err == nil {
			t.Errorf("granted without the standby, fence %d", lease.Fence())
		}
		t.Logf("an attempt without the standby ended after %v: %v",
			time.Since(began).Round(time.Millisecond), err)
		p.primary.Kill()
		p.standby.Promote()
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
	p := newPair(t, "")
	p.synchronous(t)
	sc := newScene(t)
	p.link.Cut(testenv.Both)
	a := locker(t, p.open(t, p.primary), distlock.TTL(time.Minute))
	got := make(chan *grant, 1)
	go func() { got <- sc.try("a", a) }()
	var first *grant
	eventually(t, "the first is granted", func() error {
		rows := query(t, p.primary,
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
	p.primary.Kill()
	p.standby.Promote()
	second := sc.lock("b", locker(t, p.open(t, p.standby)))
	sc.twoHolders(first)
	sc.release(second)
}

// A new primary whose clock is behind, and that has not received the last grants, issues old fences
// again.
func TestFailover_behind(t *testing.T) {
	t.Parallel()
	const behind = time.Hour
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "")
		clock := testenv.NewClock(t, p.standby.Server)
		clock.Set(-behind)
		sc := newScene(t)
		p.link.Cut(testenv.ToClient)
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		p.primary.Kill()
		p.standby.Promote()
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.fenceRepeats()
		t.Logf("fence %d after %d", second.Fence(), first.Fence())
	})
	t.Run("replicated", func(t *testing.T) {
		t.Parallel()
		r := newReplicas(t)
		clock := testenv.NewClock(t, r.replica.Server)
		r.join(t)
		clock.Set(-behind)
		sc := newScene(t)
		r.link.Cut(testenv.ToClient)
		first := sc.lock("a", locker(t, openURL(t, r.primary.URL)))
		r.primary.Kill()
		do(t, r.replica, "REPLICAOF", "NO", "ONE")
		second := sc.lock("b", locker(t, openURL(t, r.replica.URL)))
		sc.fenceRepeats()
		t.Logf("fence %d after %d", second.Fence(), first.Fence())
	})
	t.Run("redis without persistence", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Redis(t)
		clock := testenv.NewClock(t, srv.Server)
		sc := newScene(t)
		first := sc.lock("a", locker(t, openURL(t, srv.URL)))
		srv.Kill()
		clock.Set(-behind)
		srv.Restart()
		second := sc.lock("b", locker(t, openURL(t, srv.URL)))
		sc.fenceRepeats()
		t.Logf("fence %d after %d", second.Fence(), first.Fence())
	})
}

// Advisory locks are not replicated. A holder whose link to the old primary drops everything still
// trusts its lease, and the new primary grants the lock. A standby that has not received the last
// fences issues them again.
func TestFailover_advisory(t *testing.T) {
	t.Parallel()
	p := newPair(t, "&lock_mode=advisory")
	proxy := testenv.Proxy(t, p.primary.Addr)
	a := locker(t, openURL(t, at(t, p.primary.URL+p.mode, proxy.Addr)))
	sc := newScene(t)
	p.link.Cut(testenv.ToClient)
	// The server logs 32 numbers of a sequence in advance. Only the numbers after them are lost.
	for range 64 {
		sc.release(sc.lock("a", a))
	}
	first := sc.lock("a", a)
	proxy.Cut(testenv.Both)
	p.standby.Promote()
	second := sc.lock("b", locker(t, p.open(t, p.standby)))
	if !first.trusts() {
		t.Errorf("the first holder was already notified: %v", first.Err())
	}
	sc.fenceRepeats()
	if n := sc.verdict().Count["I3"]; n == 0 {
		t.Error("there were never two holders, so the test shows no broken promise")
	}
	t.Logf("fence %d after %d", second.Fence(), first.Fence())
}

// replicas are a primary and a replica, with a link between them that can be cut.
type replicas struct {
	primary, replica *testenv.RedisServer
	link             *testenv.ProxyServer
}

func newReplicas(t *testing.T, opts ...testenv.Option) *replicas {
	t.Helper()
	r := &replicas{primary: testenv.Redis(t, opts...), replica: testenv.Redis(t)}
	r.link = testenv.Proxy(t, r.primary.Addr)
	return r
}

// join makes the replica follow, and waits until it has all data.
func (r *replicas) join(t *testing.T) {
	t.Helper()
	host, port, _ := strings.Cut(r.link.Addr, ":")
	do(t, r.replica, "REPLICAOF", host, port)
	eventually(t, "the replica follows", func() error {
		if r.replica.Info(t.Context(), "master_link_status") != "up" {
			return errors.New("its link is down")
		}
		return nil
	})
	r.level(t)
}

// level waits until the replica has all data of the primary.
func (r *replicas) level(t *testing.T) {
	t.Helper()
	eventually(t, "the replica has all data", func() error {
		has := r.replica.Info(t.Context(), "slave_repl_offset")
		if has != r.primary.Info(t.Context(), "master_repl_offset") {
			return errors.New("it is behind")
		}
		return nil
	})
}

// failOver kills the primary and promotes the replica with its current data. The old primary comes
// back without data and follows.
func (r *replicas) failOver(t *testing.T) {
	t.Helper()
	r.primary.Kill()
	do(t, r.replica, "REPLICAOF", "NO", "ONE")
	r.primary, r.replica = r.replica, r.primary
	r.link.Heal()
	r.link.Retarget(r.primary.Addr)
	r.replica.Restart()
	r.join(t)
}

// A primary restarts before a replica takes over. A primary without persistence comes back empty,
// and its replica also loses the data. A primary with persistence comes back with its data.
func TestFailover_restart(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"with data": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ttl := time.Minute // the next renewal, which would show the loss, is far away
			var opts []testenv.Option
			if kept {
				ttl = 10 * time.Second
				opts = append(opts, testenv.AOF())
			}
			r := newReplicas(t, opts...)
			r.join(t)
			sc := newScene(t)
			a := locker(t, openURL(t, r.primary.URL), distlock.TTL(ttl))
			b := locker(t, openURL(t, r.primary.URL), distlock.TTL(ttl))
			first := sc.lock("a", a)
			next := sc.wait("b", b)
			r.primary.Kill()
			r.primary.Restart()
			r.join(t)
			if !kept {
				second := sc.granted(next, soon)
				sc.twoHolders(first)
				sc.release(second)
				return
			}
			sc.refused(next, 2*time.Second)
			if !first.trusts() {
				t.Errorf("the claim did not survive: %v", first.Err())
			}
			sc.release(first)
			sc.release(sc.granted(next, soon))
			sc.oneHolder()
		})
	}
}

// The replica is promoted while the old primary keeps running, and both grant the lock. With
// min-replicas-to-write the old primary soon refuses all writes, including renewals, so its holder
// is notified.
func TestFailover_split(t *testing.T) {
	t.Parallel()
	t.Run("replicated", func(t *testing.T) {
		t.Parallel()
		r := newReplicas(t)
		r.join(t)
		sc := newScene(t)
		r.link.Cut(testenv.Both)
		do(t, r.replica, "REPLICAOF", "NO", "ONE")
		first := sc.lock("a", locker(t, openURL(t, r.primary.URL)))
		second := sc.lock("b", locker(t, openURL(t, r.replica.URL)))
		sc.twoHolders(first)
		sc.release(second)
	})
	t.Run("replicated, guarded", func(t *testing.T) {
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
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "")
		sc := newScene(t)
		p.link.Cut(testenv.Both)
		p.standby.Promote()
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.twoHolders(first)
		sc.release(second)
	})
}
