package guarantees_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/tests/internal/faults"
)

// A lock server is killed again and again while 1,000 locks are held. It is back before the trust
// ends, so no lease is lost, and no rival is granted one of the locks.
func TestLockServer_killed(t *testing.T) {
	t.Parallel()
	const n, ttl = 1000, 30 * time.Second
	s := sites["remote"](t)
	l, rival := locker(t, s.store(t), distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
	leases := holdMany(t, l, n)
	var wg sync.WaitGroup
	var attempts, refused atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	for w := range 2 {
		wg.Go(func() {
			for i := w; ctx.Err() == nil; i += 2 {
				_, err := rival.TryLock(ctx, fmt.Sprint("key ", i%n))
				attempts.Add(1)
				switch {
				case err == nil:
					t.Errorf("key %d has two holders", i%n)
				case errors.Is(err, distlock.ErrHeld):
					refused.Add(1)
				case !troubled(err) && ctx.Err() == nil:
					t.Errorf("key %d: %v", i%n, err)
				}
			}
		})
	}
	rng := chance(t)
	kills := *restarts
	for range kills {
		time.Sleep(upTo(rng, 500*time.Millisecond))
		s.locks[0].Kill()
		time.Sleep(upTo(rng, 100*time.Millisecond))
		s.locks[0].Restart()
	}
	eventually(t, "a refusal after the last kill", func() error {
		if refused.Load() == 0 {
			return errors.New("no attempt was answered")
		}
		return nil
	})
	stop()
	wg.Wait()
	for i, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
	}
	t.Logf("%d kills under %d leases, none lost; %d attempts of rivals, %d refused, none granted", kills, n,
		attempts.Load(), refused.Load())
}

// An owner repeats its call at a second server because the first one is stopped. The first one goes
// on later, and makes the call too. The owner has one claim, which it keeps until its release.
func TestLockServer_resumed(t *testing.T) {
	t.Parallel()
	store := testenv.Redis(t)
	first, second := testenv.LockServer(t, faults.ServerRole, store.URL), testenv.LockServer(t, faults.ServerRole, store.URL)
	a, b := openURL(t, first.URL), openURL(t, second.URL)
	request := func(owner string) driver.Request {
		return driver.Request{ID: driver.ID{Key: "key", Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
	}
	first.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, request("x")); err == nil || errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("a server that is stopped: %v, want an unknown outcome", err)
	}
	held, err := b.Acquire(t.Context(), request("x"))
	if err != nil || !held.Granted {
		t.Fatal(held, err)
	}
	first.Resume()
	for range 20 {
		for _, s := range []driver.Store{a, b} {
			if res, err := s.Acquire(t.Context(), request("rival")); err != nil || res.Granted || res.Blocker.Fence != held.Fence {
				t.Fatalf("a rival: %+v, %v", res, err)
			}
			if _, err := s.Renew(t.Context(), driver.Renewal{ID: request("x").ID, TTL: time.Minute}); err != nil {
				t.Fatalf("the holder: %v", err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := a.Release(t.Context(), request("x").ID); err != nil {
		t.Error(err)
	}
	next, err := b.Acquire(t.Context(), request("rival"))
	if err != nil || !next.Granted || next.Fence < held.Fence+driver.Span {
		t.Errorf("after the release: %+v, %v", next, err)
	}
	late(t, first, a, b, request)
}

// late stops a server with a call, and lets it go on when another owner holds the lock.
func late(t *testing.T, first *testenv.Server, a, b driver.Store, request func(owner string) driver.Request) {
	t.Helper()
	if err := b.Release(t.Context(), request("rival").ID); err != nil {
		t.Fatal(err)
	}
	first.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, request("y")); err == nil {
		t.Fatal("a server that is stopped answers")
	}
	if res, err := b.Acquire(t.Context(), request("y")); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if err := b.Release(t.Context(), request("y").ID); err != nil {
		t.Fatal(err)
	}
	held, err := b.Acquire(t.Context(), request("z"))
	if err != nil || !held.Granted {
		t.Fatal(held, err)
	}
	first.Resume()
	for range 20 {
		claims, err := driver.Show(t.Context(), a, "key")
		if err != nil || len(claims) != 1 || claims[0].Fence != held.Fence {
			t.Fatalf("the claims after the late call: %+v, %v", claims, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// twoServers are two lock servers on one store. Each call goes to one of them at random.
type twoServers struct {
	faults.Either
	urls []string
}

// Watch returns nil: a store wakes the watcher of the server through which it got the attempt.
func (p twoServers) Watch(context.Context, driver.ID) <-chan driver.Wake { return nil }

// inPair opens a store through two servers of this process.
func inPair(t testing.TB, url string) twoServers {
	var p twoServers
	for range 2 {
		audit := server.NewAudit(io.Discard)
		t.Cleanup(func() { _ = audit.Close() })
		v, err := server.New(t.Context(), openURL(t, url), &server.Options{Anonymous: access.Everything("test"), Audit: audit})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(v)
		t.Cleanup(web.Close)
		p.urls = append(p.urls, web.URL)
	}
	return p.again(t)
}

// again opens the store once more.
func (p twoServers) again(t testing.TB) twoServers {
	p.Either = nil
	for _, u := range p.urls {
		p.Either = append(p.Either, openURL(t, u))
	}
	return p
}

// The contract holds if each call goes to one of two servers on one store at random.
func TestLockServer_pair(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) func(t testing.TB) twoServers{
		"remote, sqlite": func(t *testing.T) func(t testing.TB) twoServers {
			return inPair(t, "sqlite:"+filepath.Join(t.TempDir(), "locks.db")+"?holders=remote").again
		},
		"remote, redis": func(t *testing.T) func(t testing.TB) twoServers {
			url := testenv.Redis(t).URL + "?lock_prefix="
			return func(t testing.TB) twoServers { return inPair(t, url+rand.Text()) }
		},
		"remote, postgres": func(t *testing.T) func(t testing.TB) twoServers {
			// All rules run on one pair of servers, with few connections. With one connection each,
			// calls of other rules would wait for it longer than they may.
			return inPair(t, testenv.Postgres(t, testenv.Shared()).Database(t)+"&pool_max_conns=8").again
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := start(t)
			drivertest.Run(t, drivertest.Env{
				Many:   50,
				Open:   func(t testing.TB) driver.Store { return open(t) },
				Second: func(t testing.TB, s driver.Store) driver.Store { return s.(twoServers).again(t) },
			})
		})
	}
}
