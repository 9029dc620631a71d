package rueidisstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/rueidis"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// A pair locks and unlocks one free key.
type pair struct {
	name string
	do   func(key string) error
}

// pairs are the compared ways to lock: plain commands, scripts that write the same data as the
// store, the store, and a locker.
func pairs(b *testing.B, c client.Client) []pair {
	ctx := context.Background()
	s := open(b, c, &redis.Options{Prefix: "bench:"})
	l, err := distlock.New(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close(ctx) })
	del := client.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	same := client.NewLuaScript(`
local t = redis.call('TIME')
local last = string.match(redis.call('GET', KEYS[2]) or '0', '^%d+')
local fence = string.format('%.0f', math.max(last + 128, t[1] * 1000000 + t[2]))
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
redis.call('SET', KEYS[2], fence .. '\n' .. #ARGV[1] .. ' ' .. ARGV[1] .. fence .. ' ' .. ARGV[3], 'PX', 600000)
return fence`)
	return []pair{
		{"raw", func(key string) error {
			owner := rand.Text()
			if err := c.Do(ctx, c.B().Set().Key(key).Value(owner).Nx().PxMilliseconds(30000).Build()).Error(); err != nil {
				return err
			}
			return del.Exec(ctx, c, []string{key}, []string{owner}).Error()
		}},
		{"same data", func(key string) error {
			owner := rand.Text()
			if err := same.Exec(ctx, c, []string{key, "{" + key + "}:m"}, []string{owner, "30000", "0 4 0\n0:0:"}).Error(); err != nil {
				return err
			}
			return del.Exec(ctx, c, []string{key}, []string{owner}).Error()
		}},
		{"store", func(key string) error {
			id := driver.ID{Key: key, Owner: rand.Text()}
			if _, err := s.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: 30 * time.Second}); err != nil {
				return err
			}
			return s.Release(ctx, id)
		}},
		{"locker", func(key string) error {
			lease, err := l.Lock(ctx, key)
			if err != nil {
				return err
			}
			return lease.Unlock(ctx)
		}},
	}
}

// BenchmarkPair measures the latency of a pair, alternating between the ways. Its metrics are p50
// in us and the ratio to plain commands.
func BenchmarkPair(b *testing.B) {
	ps := pairs(b, connect(b, testenv.Redis(b).Addr))
	took := make([][]time.Duration, len(ps))
	for i := range b.N {
		for n, p := range ps {
			began := time.Now()
			if err := p.do(fmt.Sprint("key-", i%1000, n)); err != nil {
				b.Fatal(p.name, err)
			}
			took[n] = append(took[n], time.Since(began))
		}
	}
	var raw time.Duration
	for n, p := range ps {
		slices.Sort(took[n])
		p50 := took[n][len(took[n])/2]
		if n == 0 {
			raw = p50
		}
		b.ReportMetric(float64(p50.Microseconds()), p.name[:3]+"-us")
		b.ReportMetric(float64(p50)/float64(raw), p.name[:3]+"-ratio")
	}
}

// BenchmarkPairs measures the rate of 64 goroutines on separate keys, alternating between the ways
// every 100 ms.
func BenchmarkPairs(b *testing.B) {
	ps := pairs(b, connect(b, testenv.Redis(b).Addr))
	count := make([]int64, len(ps))
	for range max(b.N, 5) {
		for n, p := range ps {
			var done atomic.Int64
			var wg sync.WaitGroup
			until := time.Now().Add(100 * time.Millisecond)
			for g := range 64 {
				wg.Go(func() {
					key := fmt.Sprint("key-", g, n)
					for time.Now().Before(until) {
						if err := p.do(key); err != nil {
							b.Error(p.name, err)
							return
						}
						done.Add(1)
					}
				})
			}
			wg.Wait()
			count[n] += done.Load()
		}
	}
	for n, p := range ps {
		b.ReportMetric(float64(count[n])/float64(count[1]), p.name[:3]+"-ratio")
		b.ReportMetric(float64(count[n])/float64(max(b.N, 5))*10, p.name[:3]+"/s")
	}
}

// BenchmarkAllocs measures the allocations of one pair.
func BenchmarkAllocs(b *testing.B) {
	for _, p := range pairs(b, connect(b, testenv.Redis(b).Addr)) {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := p.do("key"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
