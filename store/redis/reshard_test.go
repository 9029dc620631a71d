package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// clusterAdapters open a store on a cluster through each of the two clients. The address is one of
// its nodes.
var clusterAdapters = map[string]func(t testing.TB, l login) *redis.Store{
	"goredis": func(t testing.TB, l login) *redis.Store {
		c := goclient.NewClusterClient(&goclient.ClusterOptions{Addrs: strings.Split(l.addr, ","),
			Username: l.user, Password: l.password})
		t.Cleanup(func() { c.Close() })
		return made(t)(goredisstore.New(c, l.opt))
	},
	"rueidis": func(t testing.TB, l login) *redis.Store {
		c, err := ruclient.NewClient(ruclient.ClientOption{
			InitAddress: strings.Split(l.addr,
				","), Username: l.user, Password: l.password, DisableCache: true,
			ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return made(t)(rueidisstore.New(c, l.opt))
	},
}

// A node of a cluster redirects a client that is no cluster client. The error names the scheme to
// use.
func TestStore_clusterNode(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, testenv.Primaries(1), testenv.Replicas(1))
	replica := cluster.Nodes[1]
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		for _, n := range []int{0, 1} {
			s := open(t, login{addr: replica.Addr, opt: &redis.Options{Replicas: n}})
			_, err := s.Acquire(t.Context(), exclusive("key"))
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "MOVED") ||
				!strings.Contains(err.Error(), "use redis+cluster://") {
				t.Errorf("Acquire with %d replicas: %v, want ErrUnavailable, MOVED and what to use", n, err)
			}
		}
	})
}

// A cluster that has lost a node with slots refuses commands, on the other nodes too, until the
// node is back.
func TestStore_clusterDown(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, testenv.Replicas(0), testenv.AOF())
	for name, open := range clusterAdapters {
		t.Run(name, func(t *testing.T) {
			opt := fresh()
			s := open(t, login{addr: strings.Join(cluster.Addrs(), ","), opt: opt})
			held := map[*testenv.RedisServer]driver.Request{} // one key on each node
			for i := 0; len(held) < len(cluster.Nodes); i++ {
				r := exclusive(fmt.Sprint("held", i))
				grant(t, s, r)
				node, err := cluster.PrimaryOf(t.Context(), opt.Prefix+r.Key)
				if err != nil {
					t.Fatal(err)
				}
				held[node] = r
			}
			lost := cluster.Nodes[0]
			lost.Kill()
			for node, r := range held {
				if node == lost {
					continue
				}
				for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
					_, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute})
					if errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "CLUSTERDOWN") {
						break
					}
					if errors.Is(err, driver.ErrNotHeld) || time.Since(began) > 20*time.Second {
						t.Fatalf("Renew without a node: %v, want CLUSTERDOWN", err)
					}
				}
				if res, err := s.Acquire(t.Context(), exclusive(r.Key)); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("a key that is held: granted %v, error %v; want ErrUnavailable", res.Granted, err)
				}
				if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Release: %v, want ErrUnavailable", err)
				}
			}
			if res, err := s.Acquire(t.Context(), exclusive(held[lost].Key)); err == nil {
				t.Errorf("a key of the lost node: granted %v, want an error", res.Granted)
			}
			lost.Restart()
			for _, r := range held {
				working(t, s, r.ID)
				if err := s.Release(t.Context(), r.ID); err != nil {
					t.Errorf("Release after the trouble: %v", err)
				}
			}
		})
	}
}

// A move is a slot that moves from one node to another.
type move struct {
	slot     string
	from, to *testenv.RedisServer
	ids      [2]string // the IDs of from and to
}

// newMove prepares to move the slot of a key.
func newMove(t testing.TB, cluster *testenv.Cluster, key string) move {
	t.Helper()
	from, err := cluster.PrimaryOf(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	m := move{from: from, slot: fmt.Sprint(do(t, from, "CLUSTER", "KEYSLOT", key))}
	m.to = cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%len(cluster.Nodes)]
	m.ids = [2]string{do(t, m.from, "CLUSTER", "MYID").(string),
		do(t, m.to, "CLUSTER", "MYID").(string)}
	return m
}

// begin announces the move to both nodes.
func (m move) begin(t testing.TB) {
	do(t, m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.ids[0])
	do(t, m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.ids[1])
}

// carry moves up to n keys, and returns how many there were.
func (m move) carry(t testing.TB, n int) int {
	host, port, _ := net.SplitHostPort(m.to.Addr)
	keys, _ := do(t, m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, fmt.Sprint(n)).([]any)
	args := []string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}
	for _, k := range keys {
		args = append(args, k.(string))
	}
	if len(keys) > 0 {
		do(t, m.from, args...)
	}
	return len(keys)
}

// end assigns the slot to the other node.
func (m move) end(t testing.TB) {
	for m.carry(t, 100) > 0 {
	}
	do(t, m.to, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[1])
	do(t, m.from, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[1])
}

// While the slot of a key moves to another node, operations on the key work or are unavailable, and
// nothing is lost.
func TestStore_reshard(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, testenv.Replicas(0),
		testenv.Config("user default on nopass ~* &* +@all", documentedFor(t, "On a cluster")))
	for name, open := range clusterAdapters {
		t.Run(name, func(t *testing.T) {
			opt := fresh()
			s := open(t, login{addr: strings.Join(cluster.Addrs(), ","), user: "distlock",
				password: "secret", opt: opt})
			a, w := exclusive("key"), exclusive("key")
			w.QueueTTL = time.Minute
			fence := grant(t, s, a).Fence
			wake := driver.Watch(t.Context(), s, w.ID)
			refuse(t, s, w)
			again := 0 // how many calls were unavailable
			tries := func(when string) {
				t.Helper()
				check := func(verb string, err error) {
					t.Helper()
					if err != nil && (!errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "NOPERM")) {
						t.Errorf("%s: %s: %v, want ErrUnavailable or none", when, verb, err)
					}
					if err != nil && strings.Contains(err.Error(), "TRYAGAIN") {
						again++
					}
				}
				_, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute})
				check("renew", err)
				check("renew all", s.RenewAll(t.Context(),
					[]driver.Renewal{{ID: a.ID, TTL: time.Minute}})[0].Err)
				res, err := s.Acquire(t.Context(), w)
				if check("Acquire", err); err == nil && res.Granted {
					t.Errorf("%s: granted next to a holder", when)
				}
				other := exclusive("key")
				if err := s.Release(t.Context(), other.ID); !errors.Is(err, driver.ErrNotHeld) {
					check("release", err)
				}
			}
			m := newMove(t, cluster, opt.Prefix+"key")
			tries("before")
			m.begin(t)
			tries("announced")
			m.carry(t, 1)
			tries("half moved")
			for m.carry(t, 10) > 0 {
			}
			tries("moved")
			drain(wake)
			m.end(t)
			tries("ended")
			woken(t, wake, "by the new subscription")
			drain(wake)
			if again == 0 {
				t.Error("nothing was refused: this tests nothing")
			}
			if res := grant(t, s, a); res.Fence != fence {
				t.Errorf("fence %d, after the move %d; want the same claim", fence, res.Fence)
			}
			if err := s.Release(t.Context(), a.ID); err != nil {
				t.Fatal(err)
			}
			woken(t, wake, "by a release")
			grant(t, s, w)
		})
	}
}

// The slot of a key moves while one client holds the key and another waits. Renewals fail while the
// Redis keys of the name are on two nodes, and are repeated: the lease survives, and the waiter
// gets the key on the other node.
func TestStore_reshard_lease(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, testenv.Replicas(0))
	for name, open := range clusterAdapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 5 * time.Second // longer than a scheduler stall
			var failed atomic.Int64     // renewals
			count := distlock.Observe(func(_ context.Context, e distlock.Event) {
				if e.Type == distlock.EventRenewed && e.Err != nil {
					failed.Add(1)
				}
			})
			opt := &redis.Options{Prefix: name + ":"} // in slots of their own
			enter := func() *distlock.Locker {
				s := open(t, login{addr: strings.Join(cluster.Addrs(), ","), opt: opt})
				l, err := distlock.New(s, distlock.TTL(ttl), count)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
				return l
			}
			holder, waiter := enter(), enter()
			lease, err := holder.Lock(t.Context(), "key")
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan *distlock.Lease, 1)
			go func() {
				lease, err := waiter.Lock(t.Context(), "key")
				if err != nil {
					t.Error(err)
				}
				next <- lease
			}()
			m := newMove(t, cluster, opt.Prefix+"key")
			for do(t, m.from, "EXISTS", "{"+opt.Prefix+"key}:z") != int64(1) {
				time.Sleep(time.Millisecond) // until the queue has the entry
			}
			m.begin(t)
			m.carry(t, 1)
			// a renewal meets TRYAGAIN
			for began := time.Now(); failed.Load() == 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > ttl {
					t.Fatal("no renewal failed: this tests nothing")
				}
			}
			m.end(t)
			time.Sleep(ttl + ttl/4) // longer than the claim lives without a renewal
			if err := lease.Err(); err != nil {
				t.Fatalf("the lease was lost: %v", err)
			}
			clock := testenv.NewStopwatch(t)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := <-next
			took := clock.Elapsed()
			if second == nil {
				return
			}
			if took > ttl+time.Second || second.Fence() <= lease.Fence() {
				t.Errorf("fence %d after %d, handed over within %v", second.Fence(), lease.Fence(), took)
			}
			if err := second.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
