package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis/goredis"
)

// All connections of the program's own client are taken, and many acquires are stuck for want of one. No lease is lost: renewals have
// connections of their own.
func TestPool_exhausted(t *testing.T) {
	t.Parallel()
	const ttl, leases, stuck, lasts = time.Second, 20, 200, 4 * time.Second
	srv := testenv.Redis(t)
	c := goclient.NewClient(&goclient.Options{Addr: srv.Addr, PoolSize: 2, MaxActiveConns: 2, PoolTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { c.Close() })
	s, err := goredis.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var renewed atomic.Int64
	l := locker(t, s, distlock.TTL(ttl), distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Kind == distlock.Renewed && e.Err == nil {
			renewed.Add(1)
		}
	}))
	var held []*distlock.Lease
	for i := range leases {
		held = append(held, lock(t, l, fmt.Sprint("held ", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { c.BLPop(ctx, lasts+soon, fmt.Sprint("nothing ", i)) })
	}
	for c.PoolStats().TotalConns-c.PoolStats().IdleConns < 2 {
		time.Sleep(time.Millisecond)
	}
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
	if refused.Load() == 0 {
		t.Error("nothing was stuck: this tests nothing")
	}
	t.Logf("%d leases with a TTL of %v lived through %v with no connection left in the pool: %d renewals, %d acquires refused",
		leases, ttl, lasts, renewed.Load(), refused.Load())
}
