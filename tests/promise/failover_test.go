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

// A pair is a primary and a standby that takes over, with a link between them that can be cut.
type pair struct {
	primary, standby *testenv.PostgresServer
	link             *testenv.ProxyServer
	mode             string // of the store, for its URL
}

func newPair(t *testing.T, mode string) *pair {
	t.Helper()
	p := &pair{primary: testenv.Postgres(t), mode: mode}
	warm(t, p.open(t, p.primary)) // the tables are there
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

// level waits until the standby has all that the primary has.
func (p *pair) level(t *testing.T) {
	t.Helper()
	at := query(t, p.primary, "select pg_current_wal_lsn()")[0][0]
	eventually(t, "the standby has it all", func() error {
		if query(t, p.standby, "select pg_last_wal_replay_lsn() >= '"+at+"'::pg_lsn")[0][0] != "t" {
			return errors.New("it is behind")
		}
		return nil
	})
}

// synchronous makes the primary answer a commit when the standby has it.
func (p *pair) synchronous(t *testing.T) {
	t.Helper()
	query(t, p.primary, "alter system set synchronous_standby_names = '*'")
	query(t, p.primary, "select pg_reload_conf()")
	eventually(t, "commits wait for the standby", func() error {
		if rows := query(t, p.primary, "select 1 from pg_stat_replication where sync_state = 'sync'"); len(rows) == 0 {
			return errors.New("no standby is synchronous")
		}
		return nil
	})
}

// The primary grants, dies before its standby has heard of it, and the standby takes over: it grants the key again. The fence rises
// all the same. With synchronous replication there is no such first grant.
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
		sc.two(first)
		sc.end(second)
	})
	t.Run("sync", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "")
		p.synchronous(t)
		sc := newScene(t)
		const ttl = time.Minute // a slow machine needs a while to make a new primary
		both := at(t, p.primary.URL, p.primary.Addr, p.standby.Addr) + "&target_session_attrs=read-write"
		held := sc.lock("a", locker(t, openURL(t, both), distlock.TTL(ttl)))
		p.link.Cut(testenv.Both)
		// A grant that the standby has not is not answered, and one that is not answered is none.
		began := time.Now()
		lease, err := locker(t, p.open(t, p.primary), distlock.TTL(2*time.Second)).TryLock(t.Context(), "other")
		if err == nil {
			t.Errorf("granted without the standby, fence %d", lease.Fence())
		}
		t.Logf("an ask without the standby ends after %v: %v", time.Since(began).Round(time.Millisecond), err)
		p.primary.Kill()
		p.standby.Promote()
		b := locker(t, p.open(t, p.standby), distlock.TTL(ttl))
		next := sc.wait("b", b)    // the claim is there
		extend(t, held.Lease, ttl) // at the new primary
		sc.refused(next, 2*time.Second)
		if !held.trusts() {
			t.Errorf("the claim did not survive: %v", held.Err())
		}
		sc.end(held)
		sc.end(sc.granted(next, soon))
		sc.one()
	})
}

// Somebody cancels the statement of a client while it waits for the synchronous standby: PostgreSQL answers it as done, with a warning, and
// the standby has nothing of it. This is documented there, and no client can tell.
func TestFailover_cancelled(t *testing.T) {
	t.Parallel()
	p := newPair(t, "")
	p.synchronous(t)
	sc := newScene(t)
	p.link.Cut(testenv.Both)
	a := locker(t, p.open(t, p.primary), distlock.TTL(time.Minute))
	got := make(chan *part, 1)
	go func() { got <- sc.try("a", a) }()
	var first *part
	eventually(t, "the first is granted", func() error {
		rows := query(t, p.primary, "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
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
	sc.two(first)
	sc.end(second)
}

// A new primary whose clock is behind, and that has not heard of the last grants, gives fences that were there before.
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
		sc.back()
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
		sc.back()
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
		sc.back()
		t.Logf("fence %d after %d", second.Fence(), first.Fence())
	})
}

// Advisory locks are not replicated. A holder whose link to the old primary swallows everything trusts its lease, and the new primary
// grants the lock; with a standby that has not heard of the last fences they are given again.
func TestFailover_advisory(t *testing.T) {
	t.Parallel()
	p := newPair(t, "&lock_mode=advisory")
	proxy := testenv.Proxy(t, p.primary.Addr)
	a := locker(t, openURL(t, at(t, p.primary.URL+p.mode, proxy.Addr)))
	sc := newScene(t)
	p.link.Cut(testenv.ToClient)
	// The server writes down 32 numbers of a sequence ahead: only what comes after them is lost.
	for range 64 {
		sc.end(sc.lock("a", a))
	}
	first := sc.lock("a", a)
	proxy.Cut(testenv.Both)
	p.standby.Promote()
	second := sc.lock("b", locker(t, p.open(t, p.standby)))
	if !first.trusts() {
		t.Errorf("the first holder knows already: %v", first.Err())
	}
	sc.back()
	if n := sc.verdict().Count["I3"]; n == 0 {
		t.Error("never were there two holders: this shows nothing of what is not promised")
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

// join makes the replica follow, and waits until it has it all.
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

// level waits until the replica has all that the primary has.
func (r *replicas) level(t *testing.T) {
	t.Helper()
	eventually(t, "the replica has it all", func() error {
		if r.replica.Info(t.Context(), "slave_repl_offset") != r.primary.Info(t.Context(), "master_repl_offset") {
			return errors.New("it is behind")
		}
		return nil
	})
}

// failOver kills the primary and promotes the replica with what it has. The old primary comes back with nothing, and follows.
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

// A primary that keeps nothing is restarted before anybody takes its place: its replica follows it into oblivion. One that keeps its
// data comes back with it.
func TestFailover_restart(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"with data": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ttl := time.Minute // it is a while until a renewal tells
			var opts []testenv.Option
			if kept {
				ttl = 10 * time.Second
				opts = append(opts, testenv.AOF())
			}
			r := newReplicas(t, opts...)
			r.join(t)
			sc := newScene(t)
			a, b := locker(t, openURL(t, r.primary.URL), distlock.TTL(ttl)), locker(t, openURL(t, r.primary.URL), distlock.TTL(ttl))
			first := sc.lock("a", a)
			next := sc.wait("b", b)
			r.primary.Kill()
			r.primary.Restart()
			r.join(t)
			if !kept {
				second := sc.granted(next, soon)
				sc.two(first)
				sc.end(second)
				return
			}
			sc.refused(next, 2*time.Second)
			if !first.trusts() {
				t.Errorf("the claim did not survive: %v", first.Err())
			}
			sc.end(first)
			sc.end(sc.granted(next, soon))
			sc.one()
		})
	}
}

// The replica is promoted while the old primary lives on: each grants the key. With min-replicas-to-write the old one refuses its work
// soon after it has lost its replica, renewals too, so its holder is told.
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
		sc.two(first)
		sc.end(second)
	})
	t.Run("replicated, guarded", func(t *testing.T) {
		t.Parallel()
		const ttl = 4 * time.Second
		r := newReplicas(t, testenv.Config("min-replicas-to-write 1", "min-replicas-max-lag 1", "repl-ping-replica-period 1"))
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
		window := cut.Elapsed() // Redis counts the lag in its own timer, which runs late on a busy machine
		select {
		case <-held.Done():
		case <-time.After(ttl + soon):
			t.Error("the holder at the old primary was not told")
		}
		t.Logf("two primaries for %v; the holder at the old one told after %v", window.Round(time.Millisecond), cut.Elapsed().Round(time.Millisecond))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "")
		sc := newScene(t)
		p.link.Cut(testenv.Both)
		p.standby.Promote()
		first := sc.lock("a", locker(t, p.open(t, p.primary)))
		second := sc.lock("b", locker(t, p.open(t, p.standby)))
		sc.two(first)
		sc.end(second)
	})
}
