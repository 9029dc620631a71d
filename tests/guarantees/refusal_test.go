package guarantees_test

import (
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A node that refuses requests, for any reason, does not count. With one of three such nodes there
// is no effect. With two, no lock can be acquired, and no call returns ErrHeld. When the nodes work
// again, the lock works again.
func TestRefusal_nodes(t *testing.T) {
	t.Parallel()
	const ttl = longest
	set := func(name, bad, good string) [2]func(*testing.T, *testenv.RedisServer) {
		return [2]func(*testing.T, *testenv.RedisServer){
			func(t *testing.T, r *testenv.RedisServer) { do(t, r, "CONFIG", "SET", name, bad) },
			func(t *testing.T, r *testenv.RedisServer) { do(t, r, "CONFIG", "SET", name, good) },
		}
	}
	for name, trouble := range map[string][2]func(*testing.T, *testenv.RedisServer){
		"out of memory": set("maxmemory", "1", "0"),
		"no replicas":   set("min-replicas-to-write", "1", "0"), // like a full disk: the server accepts no writes
		"read-only": {
			func(t *testing.T, r *testenv.RedisServer) { do(t, r, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, r *testenv.RedisServer) { do(t, r, "REPLICAOF", "NO", "ONE") },
		},
		"another's data": {
			func(t *testing.T, r *testenv.RedisServer) {
				// The answer came when a majority had it.
				eventually(t, "the node has received the release", func() error {
					_, err := r.Do(t.Context(), "RPUSH", "lock:free", "1")
					return err
				})
			},
			func(t *testing.T, r *testenv.RedisServer) { do(t, r, "DEL", "lock:free") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sites["redlock"](t)
			a, b := locker(t, s.store(t), distlock.TTL(ttl)), locker(t, s.store(t), distlock.TTL(ttl))
			var f fences
			take := func() {
				t.Helper()
				lease := persist(t, b, "free")
				f.rise(t, lease)
				unlock(t, lease)
			}
			take()
			trouble[0](t, s.redis[0])
			take()
			trouble[0](t, s.redis[1])
			for range 5 {
				lease, err := a.TryLock(t.Context(), "free")
				if err == nil || errors.Is(err, distlock.ErrHeld) {
					t.Errorf("with a majority that refuses requests: %v, %v", lease, err)
				}
			}
			trouble[1](t, s.redis[0])
			trouble[1](t, s.redis[1])
			take()
		})
	}
	t.Run("no connection left", func(t *testing.T) {
		t.Parallel()
		s := sites["redlock"](t)
		held := persist(t, locker(t, s.store(t), distlock.TTL(ttl)), "key")
		for _, r := range s.redis[:2] {
			do(t, r, "CONFIG", "SET", "maxclients", "1") // fewer than connected: connected clients stay
		}
		late, err := openErr(t, s.redis[0].URL)
		if err == nil {
			_, err = late.Acquire(t.Context(), driver.Request{
				ID: driver.ID{Key: "free", Owner: "late"}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl,
			})
		}
		if err == nil {
			t.Error("a node that accepts no connections has answered: this tests nothing")
		}
		time.Sleep(ttl + time.Second)
		if err := held.Err(); err != nil {
			t.Errorf("the earlier lease: %v", err)
		}
		unlock(t, held)
	})
}

// A waiter in the queue of the server is killed. The next waiter in the queue is served.
func TestWaiterKilled(t *testing.T) {
	t.Parallel()
	s := shared(t, "advisory")
	sc := newScene(t)
	first := sc.lock("a", locker(t, s.store(t)))
	w := testenv.Helper(t, "waiters", s.url, "1")
	if line := w.Line(); line != "waiting" {
		t.Fatal(line)
	}
	next := sc.wait("b", locker(t, s.store(t)))
	w.Kill()
	sc.release(first)
	second := sc.granted(next, soon)
	sc.release(second)
	sc.oneHolder()
}
