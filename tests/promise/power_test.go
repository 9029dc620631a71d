package promise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A server that answers after its disk has the data loses nothing in a power failure. A server that
// answers before loses the last claims. The test cuts no power. It kills Redis and truncates its
// file to the synced part, or for everysec to the part before the grant. PostgreSQL keeps unwritten
// data in its own memory, so killing it is enough.
func TestPower(t *testing.T) {
	t.Parallel()
	t.Run("redis, always", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Redis(t, testenv.AOF())
		power := testenv.NewPower(t, srv.Server)
		remembers(t, srv.URL, func() { power.Fail(); srv.Restart() })
	})
	t.Run("replicated, always", func(t *testing.T) {
		t.Parallel()
		r := newReplicas(t, testenv.AOF())
		power := testenv.NewPower(t, r.primary.Server)
		r.join(t)
		remembers(t, r.primary.URL, func() { power.Fail(); r.primary.Restart(); r.join(t) })
	})
	t.Run("redis, everysec", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Redis(t, testenv.Config("appendonly yes", "appendfsync everysec"))
		forgets(t, srv.URL, func(grant func()) {
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
			grant()
			srv.Kill()
			if err := os.Truncate(files[0], before.Size()); err != nil {
				t.Fatal(err)
			}
			srv.Restart()
		})
	})
	t.Run("postgres, synchronous_commit off", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Postgres(t, testenv.Config("synchronous_commit = off", "wal_writer_delay = 10s",
			"wal_writer_flush_after = 0"))
		warm(t, openURL(t, srv.URL))
		query(t, srv, "checkpoint")
		forgets(t, srv.URL, func(grant func()) {
			grant()
			srv.Kill()
			srv.Restart()
		})
	})
}

// Advisory locks end with the server. A holder that does not see the closed connection still trusts
// its lease, and another process gets the lock.
func TestPower_advisory(t *testing.T) {
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

// remembers checks that a crash right after a grant leaves one holder. The holder keeps the lock,
// and another process waits until the release.
func remembers(t *testing.T, url string, crash func()) {
	t.Helper()
	const ttl = 10 * time.Second
	sc := newScene(t)
	a := locker(t, openURL(t, url), distlock.TTL(ttl))
	b := locker(t, openURL(t, url), distlock.TTL(ttl))
	sc.release(sc.lock("b", b))
	first := sc.lock("a", a)
	crash()
	next := sc.wait("b", b)
	sc.refused(next, time.Second)
	extend(t, first.Lease, ttl)
	if !first.trusts() {
		t.Errorf("the claim did not survive: %v", first.Err())
	}
	sc.release(first)
	sc.release(sc.granted(next, soon))
	sc.oneHolder()
}

// forgets checks that a crash right after a grant leads to two holders.
func forgets(t *testing.T, url string, crash func(grant func())) {
	t.Helper()
	sc := newScene(t)
	a, b := locker(t, openURL(t, url)), locker(t, openURL(t, url))
	sc.release(sc.lock("b", b))
	var first *grant
	crash(func() { first = sc.lock("a", a, distlock.TTL(time.Minute)) })
	second := sc.lock("b", b)
	sc.twoHolders(first)
	sc.release(second)
}

// A server that may evict keys evicts locks. The doctor warns about it.
func TestEviction(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.Config("maxmemory 4mb", "maxmemory-policy allkeys-lru",
		"maxmemory-samples 64", "maxmemory-eviction-tenacity 100"))
	s := openURL(t, srv.URL)
	info, err := driver.Inspect(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for _, f := range info.Findings {
		if strings.Contains(f.What, "allkeys-lru") && f.Level == driver.LevelDanger && f.Cure != "" {
			named = true
			t.Logf("the doctor: %s; %s; %s", f.What, f.Means, f.Cure)
		}
	}
	if !named {
		t.Errorf("no warning: %+v", info.Findings)
	}
	sc := newScene(t)
	first := sc.lock("a", locker(t, s, distlock.TTL(time.Minute)))
	// No call uses the lock in this time, so it is the least recently used key.
	for began, i := time.Now(), 0; do(t, srv, "EXISTS", "lock:key") == int64(1); i++ {
		if time.Since(began) > soon {
			t.Fatal("the lock is not evicted")
		}
		do(t, srv, "EVAL", "for i = 1, 200 do redis.call('SET', ARGV[1] .. i, string.rep('x', 1000)) end return 1", "0", fmt.Sprint("ballast ", i, " "))
	}
	second := sc.lock("b", locker(t, openURL(t, srv.URL), distlock.TTL(time.Minute)))
	sc.twoHolders(first)
	sc.release(second)
}
