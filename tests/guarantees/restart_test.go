package guarantees_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/tests/internal/faults"
)

// A server that answers after its disk has the data loses nothing in a restart, and nothing in a
// power failure. A server that answers before loses the last claims. A server without persistence
// loses all claims, and its replicas lose them too. The test cuts no power. It kills Redis and
// truncates its file to the synced part, or for everysec to the part before the grant. PostgreSQL
// keeps unwritten data in its own memory, so killing it is enough.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T){
		"redis, always": func(t *testing.T) {
			srv := testenv.Redis(t, testenv.AOF())
			power := testenv.NewPower(t, srv.Server)
			remembers(t, srv.URL, func() { power.Fail(); srv.Restart() })
		},
		"replicated, always": func(t *testing.T) {
			r := newReplicas(t, testenv.AOF())
			power := testenv.NewPower(t, r.primary.Server)
			r.join(t)
			remembers(t, r.primary.URL, func() { power.Fail(); r.primary.Restart(); r.join(t) })
		},
		"remote": func(t *testing.T) {
			s := sites["remote"](t)
			remembers(t, s.url, func() { s.locks[0].Kill(); s.locks[0].Restart() })
		},
		"remote, one of two": func(t *testing.T) {
			store := testenv.Redis(t)
			s := onLockServers(testenv.LockServer(t, faults.ServerRole, store.URL),
				testenv.LockServer(t, faults.ServerRole, store.URL))
			remembers(t, s.url, s.locks[0].Kill)
		},
		"remote, one of two stops": func(t *testing.T) {
			store := testenv.Redis(t)
			s := onLockServers(testenv.LockServer(t, faults.ServerRole, store.URL),
				testenv.LockServer(t, faults.ServerRole, store.URL))
			remembers(t, s.url, s.locks[0].Pause)
			s.locks[0].Resume()
		},
		"redis, everysec": func(t *testing.T) {
			srv := testenv.Redis(t, testenv.Config("appendonly yes", "appendfsync everysec"))
			forgets(t, srv.URL, func(grant func() func()) {
				truncate := unsynced(t, srv)
				grant()
				srv.Kill()
				truncate()
				srv.Restart()
			})
		},
		"redis, without persistence": func(t *testing.T) {
			srv := testenv.Redis(t)
			forgets(t, srv.URL, func(grant func() func()) { grant(); srv.Kill(); srv.Restart() })
		},
		"replicated, without persistence": func(t *testing.T) {
			r := newReplicas(t)
			r.join(t)
			forgets(t, r.primary.URL, func(grant func() func()) {
				grant()
				r.primary.Kill()
				r.primary.Restart()
				r.join(t)
			})
		},
		"mariadb, log not flushed": func(t *testing.T) {
			// In /dev/shm, where temporary files may be, the server maps its log: a kill loses
			// nothing of it.
			if !testenv.CanDisk() {
				t.Skip("MariaDB needs a disk of its own here, which needs Linux and root")
			}
			srv := testenv.MariaDB(t, testenv.OnDisk(testenv.NewDisk(t, 256<<20)),
				testenv.Config("innodb_flush_log_at_trx_commit = 0", "innodb_flush_log_at_timeout = 2700"))
			store := openURL(t, srv.URL)
			flushed := func(f func()) {
				for _, n := range []string{"1", "0"} {
					if _, err := srv.Query(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = "+n); err != nil {
						t.Fatal(err)
					}
					if n == "1" {
						f()
					}
				}
			}
			flushed(func() { warm(t, store) })
			forgets(t, srv.URL, func(grant func() (undo func())) {
				// The server may write its log at any time. So a crash forgets a grant mostly, but
				// not always.
				for range 20 {
					undo := grant()
					srv.Kill()
					srv.Restart()
					claims, err := driver.Show(t.Context(), store, "key")
					for troubled(err) { // the restart broke its connections
						claims, err = driver.Show(t.Context(), store, "key")
					}
					if err != nil {
						t.Fatal(err)
					}
					if len(claims) == 0 {
						return
					}
					flushed(undo)
				}
			})
		},
		"postgres, synchronous_commit off": func(t *testing.T) {
			srv := testenv.Postgres(t, testenv.Config("synchronous_commit = off",
				"wal_writer_delay = 10s", "wal_writer_flush_after = 0"))
			warm(t, openURL(t, srv.URL))
			query(t, srv, "checkpoint")
			forgets(t, srv.URL, func(grant func() func()) { grant(); srv.Kill(); srv.Restart() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// unsynced returns a function that removes what a server appends to its file from now on.
func unsynced(t *testing.T, srv *testenv.RedisServer) (truncate func()) {
	t.Helper()
	eventually(t, "all data is on disk", func() error {
		if n := srv.Info(t.Context(), "aof_pending_bio_fsync"); n != "0" {
			return errors.New(n + " writes are pending")
		}
		return nil
	})
	dir := do(t, srv, "CONFIG", "GET", "dir").([]any)[1].(string)
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	before, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Truncate(files[0], before.Size()); err != nil {
			t.Fatal(err)
		}
	}
}

// remembers checks that a crash right after a grant leaves one holder. The holder keeps the lock,
// a call that waits goes on waiting until the release, and a new call is refused.
func remembers(t *testing.T, url string, crash func()) {
	t.Helper()
	const ttl = 10 * time.Second
	sc := newScene(t)
	a := locker(t, openURL(t, url), distlock.TTL(ttl))
	b := locker(t, openURL(t, url), distlock.TTL(ttl))
	sc.release(sc.lock("b", b))
	first := sc.lock("a", a)
	next := sc.wait("b", b)
	crash()
	eventually(t, "a refusal after the crash", func() error {
		_, err := locker(t, openURL(t, url)).TryLock(t.Context(), "key")
		switch {
		case errors.Is(err, distlock.ErrHeld):
			return nil
		case !troubled(err):
			t.Fatalf("a call after the crash: %v, want ErrHeld", err)
		}
		return err
	})
	sc.refused(next, time.Second)
	extend(t, first.Lease, ttl)
	if !first.trusts() {
		t.Errorf("the claim did not survive: %v", first.Err())
	}
	sc.release(first)
	sc.release(sc.granted(next, soon))
	sc.oneHolder()
}

// forgets checks that a crash right after a grant leads to two holders. The next renewal of the
// first reports the loss, and the second keeps its lease.
func forgets(t *testing.T, url string, crash func(grant func() (undo func()))) {
	t.Helper()
	const ttl = time.Minute // the next renewal, which would show the loss, is far away
	sc := newScene(t)
	a, b := locker(t, openURL(t, url)), locker(t, openURL(t, url))
	sc.release(sc.lock("b", b))
	var first *grant
	crash(func() func() {
		first = sc.lock("a", a, distlock.TTL(ttl))
		return func() { sc.release(first) }
	})
	second := sc.lock("b", b)
	sc.twoHolders(first)
	// A connection that the restart broke may lose the answer of the first call.
	err := first.Extend(t.Context(), ttl)
	for troubled(err) {
		err = first.Extend(t.Context(), ttl)
	}
	if !lostTo(distlock.LossTaken, err) {
		t.Errorf("Extend: %v, want LossTaken", err)
	}
	if !second.trusts() {
		t.Errorf("the second lease: %v", second.Err())
	}
	sc.release(second)
}

// Advisory locks end with the server. A holder that does not see the closed connection still trusts
// its lease, and another process gets the lock.
func TestRestart_advisory(t *testing.T) {
	t.Parallel()
	s := sites["advisory"](t)
	sc := newScene(t)
	linked, link := s.through(t)
	first := sc.lock("a", locker(t, linked))
	link.each(func(p *testenv.ProxyServer) { p.Hold(testenv.ToClient) })
	s.pg[0].Kill()
	s.pg[0].Restart()
	second := sc.lock("b", locker(t, s.store(t)))
	sc.twoHolders(first)
	link.each(func(p *testenv.ProxyServer) { p.Heal() })
	sc.lost(first, soon)
	sc.release(second)
}

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
			sc := newScene(t)
			held, next := sc.lock("a", a), sc.wait("b", b)
			persist(t, a, "ran on", distlock.TTL(fixed), distlock.NoRenewal())
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

			sc.refused(next, ttl) // a claim without renewal expires in this time
			if !held.trusts() {
				t.Fatalf("the claim did not survive: %v", held.Err())
			}
			sc.release(held)
			sc.release(sc.patient(next, soon))
			sc.oneHolder()
			t.Logf("down for %v; the first lock %v after the restart; the claim survived",
				up.Sub(began).Round(time.Millisecond), resumed.Round(time.Millisecond))
		})
	}
}
