package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// pools are clients with few connections for blocking commands. Each returns a store whose acquires
// need such a connection, and functions that occupy one.
var pools = map[string]func(t *testing.T, srv *testenv.RedisServer) (s driver.Store, takes []func(context.Context)){
	"goredis": func(t *testing.T, srv *testenv.RedisServer) (driver.Store, []func(context.Context)) {
		c := goclient.NewClient(&goclient.Options{Addr: srv.Addr, PoolSize: 2, MaxActiveConns: 2,
			PoolTimeout: 300 * time.Millisecond})
		take := func(ctx context.Context) { c.BLPop(ctx, time.Minute, "nothing") }
		return goredis(t, c), []func(context.Context){take, take}
	},
	// An acquire needs its own connection only if it waits for replicas.
	"rueidis": func(t *testing.T, srv *testenv.RedisServer) (driver.Store, []func(context.Context)) {
		testenv.Redis(t, testenv.ReplicaOf(srv))
		// The primary sends nothing to a new replica before the replica has reported its offset,
		// which it does once a second.
		do(t, srv, "SET", "first", "")
		eventually(t, "the replica has all data", func() error {
			offset := srv.Info(t.Context(), "master_repl_offset")
			if has := srv.Info(t.Context(), "slave0"); !strings.Contains(has,
				",state=online,offset="+offset+",") {
				return errors.New(has)
			}
			return nil
		})
		c, err := ruclient.NewClient(ruclient.ClientOption{
			InitAddress: []string{srv.Addr}, DisableCache: true, ForceSingleClient: true,
			DisableAutoPipelining: true, BlockingPoolSize: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		s, err := rueidisstore.New(c, &redis.Options{Replicas: 1, ReplicaTimeout: soon})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		pop := func() ruclient.Completed { return c.B().Blpop().Key("nothing").Timeout(60).Build() }
		take := func(ctx context.Context) { c.Do(ctx, pop()) }
		hold := func(ctx context.Context) { c.Do(ctx, pop().ToPipe()) } // in the pool of WAIT
		return s, []func(context.Context){take, take, hold, hold}
	},
}

// All connections of the program's own client are in use, and many acquires wait for one. No lease
// is lost: renewals have their own connections, or a shared one.
func TestPool_exhausted(t *testing.T) {
	t.Parallel()
	for name, open := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exhausted(t, open)
		})
	}
}

func exhausted(t *testing.T, open func(t *testing.T, srv *testenv.RedisServer) (driver.Store, []func(context.Context))) {
	// The TTL is longer than a scheduler stall.
	const ttl, leases, stuck, lasts = 4 * time.Second, 20, 200, 6 * time.Second
	srv := testenv.Redis(t)
	s, takes := open(t, srv)
	var renewed atomic.Int64
	l := locker(t, s, distlock.TTL(ttl), distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventRenewed && e.Err == nil {
			renewed.Add(1)
		}
	}))
	var held []*distlock.Lease
	for i := range leases {
		held = append(held, persist(t, l, fmt.Sprint("held ", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, take := range takes {
		wg.Go(func() { take(ctx) })
	}
	eventually(t, "all connections are in use", func() error {
		if n := srv.Info(t.Context(), "blocked_clients"); n != strconv.Itoa(len(takes)) {
			return errors.New(n + " clients are blocked")
		}
		return nil
	})
	var refused atomic.Int64
	for i := range stuck {
		wg.Go(func() {
			for ctx.Err() == nil {
				if lease, err := l.Lock(ctx, fmt.Sprint("stuck ", i)); err == nil {
					_ = lease.Unlock(ctx)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	time.Sleep(lasts)
	for _, lease := range held {
		if err := lease.Err(); err != nil {
			t.Errorf("lost: %v", err)
		}
	}
	cancel()
	do(t, srv, "CLIENT", "KILL", "TYPE", "normal") // go-redis waits for its blocked commands
	wg.Wait()
	if refused.Load() < stuck {
		t.Errorf("%d of %d were stuck: this tests nothing", refused.Load(), stuck)
	}
	t.Logf("%d leases with a TTL of %v survived %v without a free connection in the pool: %d renewals, %d acquires refused",
		leases, ttl, lasts, renewed.Load(), refused.Load())
}
