package distlock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// BenchmarkFree acquires and releases a lock without contention.
func BenchmarkFree(b *testing.B) {
	l, err := distlock.New(mem.New())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Lock(ctx, "x")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// Most of the memory of a lock is one piece. With its header it just fits into a size class of the
// allocator: one more field costs every lock 128 bytes.
func TestSlab(t *testing.T) {
	const class, header = 1152, 8
	if n := distlock.SlabSize; n > class-header {
		t.Errorf("the slab has %d bytes, more than %d", n, class-header)
	}
}

// BenchmarkContended hands one lock off among 64 goroutines of one process.
func BenchmarkContended(b *testing.B) {
	l, err := distlock.New(mem.New())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	var wg sync.WaitGroup
	var n atomic.Int64
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	var last uint64 // guarded by the lock that is measured
	for range 64 {
		wg.Go(func() {
			for n.Add(1) <= int64(b.N) {
				lease, err := l.Lock(ctx, "x")
				if err != nil {
					b.Error(err)
					return
				}
				if lease.Fence() <= last {
					b.Error("fence", lease.Fence(), "after", last)
				}
				last = lease.Fence()
				if err := lease.Unlock(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "grants/s")
}

// BenchmarkLeases10000 holds 10,000 leases of one Locker. It reports the memory of each lease
// besides that of the store, the goroutines of all of them, and the round trips per renewal
// interval (a third of the TTL).
func BenchmarkLeases10000(b *testing.B) {
	const leases, interval, intervals = 10_000, time.Second, 3
	var goroutines, bytes, trips float64
	for b.Loop() {
		store := &countingStore{Store: mem.New()}
		empty := heap()
		claim(b, store, leases)
		kept := heap() - empty
		before, routines := heap(), runtime.NumGoroutine()
		l, err := distlock.New(store, distlock.TTL(3*interval), distlock.Holder("b"))
		if err != nil {
			b.Fatal(err)
		}
		all := make([]*distlock.Lease, leases)
		for i := range all {
			if all[i], err = l.Lock(b.Context(), fmt.Sprint("key ", i)); err != nil {
				b.Fatal(err)
			}
		}
		goroutines += float64(runtime.NumGoroutine() - routines)
		bytes += (float64(heap()) - float64(before) - float64(kept)) / leases
		store.renewals.Store(0)
		time.Sleep(intervals * interval)
		trips += float64(store.renewals.Load()) / intervals
		if err := l.Close(b.Context()); err != nil {
			b.Error(err)
		}
		runtime.KeepAlive(all)
	}
	b.ReportMetric(goroutines/float64(b.N), "goroutines")
	b.ReportMetric(bytes/float64(b.N), "B/lease")
	b.ReportMetric(trips/float64(b.N), "renewals/interval")
}

// claim puts n claims into a store, to measure the memory of the store alone.
func claim(b *testing.B, store driver.Store, n int) {
	for i := range n {
		r := driver.Request{
			ID: driver.ID{Key: fmt.Sprint("KEY ", i), Owner: fmt.Sprintf("%026d", i)}, Weight: driver.Whole, Limit: driver.Whole,
			TTL: time.Hour, Holder: "b",
		}
		if _, err := store.Acquire(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// heap returns the number of bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // for objects that the first run finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A countingStore counts the round trips of renewals.
type countingStore struct {
	*mem.Store
	renewals atomic.Int64
}

func (s *countingStore) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	s.renewals.Add(1)
	return s.Store.RenewAll(ctx, rs)
}
