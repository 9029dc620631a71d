package etcd_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

const life = 3 * time.Second

// whole is the request of an exclusive claim that outlives a scheduler stall, and brief of one that
// ends during a test.

func brief(key string) driver.Request {
	r := whole(key)
	r.TTL = life
	return r
}

func whole(key string) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	}
}

// A trusted follows who trusts its claim, and fails the test if two owners do, or if a fence falls.
type trusted struct {
	tb     testing.TB
	mu     sync.Mutex
	owner  string
	until  time.Time
	fence  uint64
	grants int
}

func (k *trusted) enter(owner string, fence uint64, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owner != "" && time.Now().Before(k.until) {
		k.tb.Errorf("a claim with the fence %d was granted while the claim with the fence %d is trusted", fence, k.fence)
	}
	if fence < k.fence+driver.Span {
		k.tb.Errorf("the fence %d after %d", fence, k.fence)
	}
	k.owner, k.until, k.fence = owner, until, fence
	k.grants++
}

func (k *trusted) renewed(owner string, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owner == owner {
		k.until = until
	}
}

func (k *trusted) leave(owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owner == owner {
		k.owner = ""
	}
}

func (k *trusted) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grants
}

// contend acquires, renews and releases one key until ctx ends.
func contend(ctx context.Context, s driver.Store, k *trusted, key string) {
	call := func(f func(ctx context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		f(ctx)
	}
	for ctx.Err() == nil {
		r, began := brief(key), time.Now()
		var res driver.Result
		var err error
		call(func(ctx context.Context) { res, err = s.Acquire(ctx, r) })
		if err == nil && res.Granted {
			k.enter(r.Owner, res.Fence, began.Add(life))
			for range 3 {
				time.Sleep(30 * time.Millisecond)
				began := time.Now()
				call(func(ctx context.Context) { _, err = s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: life}) })
				if err == nil {
					k.renewed(r.Owner, began.Add(life))
				}
			}
			k.leave(r.Owner)
		}
		if err != nil || res.Granted {
			call(func(ctx context.Context) { _ = s.Release(ctx, r.ID) })
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leader returns the member that leads, and its client.
func leader(t *testing.T, c *clientv3.Client, e *testenv.EtcdCluster) (at int, ids []uint64) {
	t.Helper()
	at = -1
	for i, url := range e.Endpoints() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		st, err := c.Status(ctx, url)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, st.Header.MemberId); st.Leader == st.Header.MemberId {
			at = i
		}
	}
	if at < 0 {
		t.Fatal("there is no leader")
	}
	return at, ids
}

// Three members are killed, stopped and led by others while four processes contend for one key, and
// the history is compacted every 100 ms. No two of them trust a claim at a time, fences grow, and
// waiters get their turn.
func TestCluster(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, testenv.Members(3))
	admin := connect(t, e.Endpoints()...)
	k := &trusted{tb: t}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 4 {
		s := store(t, connect(t, e.Endpoints()...), "p")
		wg.Go(func() { contend(ctx, s, k, "key") })
	}
	wg.Go(func() { compact(ctx, admin) })
	locked := waiters(ctx, t, &wg, e)
	progress := func(t *testing.T) {
		t.Helper()
		was, waited := k.count(), locked.Load()
		for by := time.Now().Add(20 * time.Second); k.count() < was+3 || locked.Load() < waited+3; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(by) {
				t.Fatalf("%d grants and %d locks of waiters in 20 s", k.count()-was, locked.Load()-waited)
			}
		}
	}
	progress(t)
	for name, fault := range map[string]func(t *testing.T, m *testenv.Server){
		"killed":  func(_ *testing.T, m *testenv.Server) { m.Kill(); time.Sleep(time.Second); m.Restart() },
		"stopped": func(_ *testing.T, m *testenv.Server) { m.Pause(); time.Sleep(2 * time.Second); m.Resume() },
	} {
		for _, lead := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " leader=", lead), func(t *testing.T) {
				at, _ := leader(t, admin, e)
				if !lead {
					at = (at + 1) % 3
				}
				fault(t, e.Members[at])
				progress(t)
			})
		}
	}
	t.Run("leaders", func(t *testing.T) {
		for range 50 {
			at, ids := leader(t, admin, e)
			one := connect(t, e.Endpoints()[at])
			if _, err := one.MoveLeader(t.Context(), ids[(at+1)%3]); err != nil {
				t.Log(err) // the leader has changed by itself
			}
		}
		progress(t)
	})
	t.Logf("%d grants, %d locks of waiters", k.count(), locked.Load())
}

// compact compacts the history every 100 ms: a watch that is behind loses its revisions.
func compact(ctx context.Context, c *clientv3.Client) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, time.Second)
		if resp, err := c.Get(call, "x"); err == nil {
			_, _ = c.Compact(call, resp.Header.Revision)
		}
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
}

// waiters lets three processes wait for a lock all the time. It returns the number of locks they
// got.
func waiters(ctx context.Context, t *testing.T, wg *sync.WaitGroup, e *testenv.EtcdCluster) *atomic.Int64 {
	var locked atomic.Int64
	var inside atomic.Int32
	for range 3 {
		l, err := distlock.New(store(t, connect(t, e.Endpoints()...), "p"), distlock.TTL(life))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = l.Do(ctx, "waited", func(ctx context.Context) error {
					if n := inside.Add(1); n > 1 && ctx.Err() == nil {
						t.Errorf("%d hold the lock", n)
					}
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					locked.Add(1)
					return nil
				})
			}
			_ = l.Close(context.WithoutCancel(ctx))
		})
	}
	return &locked
}

// While a majority is missing, calls fail as unknown or unavailable, never as refused, and a claim
// that is held survives.
func TestCluster_minority(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, testenv.Members(3))
	s := store(t, connect(t, e.Endpoints()...), "p")
	held := whole("held")
	if res, err := s.Acquire(t.Context(), held); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	e.Members[0].Pause()
	e.Members[1].Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if res, err := s.Acquire(ctx, whole("other")); err == nil {
		t.Errorf("granted %v without a majority", res.Granted)
	} else if errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrInvalid) {
		t.Error(err)
	}
	e.Members[0].Resume()
	e.Members[1].Resume()
	for by := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Renew(ctx, driver.Renewal{ID: held.ID, TTL: time.Minute})
		cancel()
		if err == nil {
			break
		}
		if errors.Is(err, driver.ErrNotHeld) || time.Now().After(by) {
			t.Fatal(err)
		}
	}
}
