package distlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		l, err := distlock.New(s)
		if err != nil {
			t.Fatal(err)
		}
		l2, _ := distlock.New(s)
		ctx := t.Context()
		a, err := l.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l2.TryLock(ctx, "x"); !errors.Is(err, distlock.ErrHeld) {
			t.Fatal(err)
		} else {
			t.Log(err)
		}
		time.Sleep(time.Hour)
		if err := a.Err(); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			if err := a.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		b, err := l2.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(start), a.Fence(), b.Fence())
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = l.Lock(short, "x")
		t.Log(err)
		if w, _ := l.Why(ctx, "x"); len(w.Line) != 0 {
			t.Error(w)
		}
		if err := l2.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkContended(b *testing.B) {
	l, _ := distlock.New(mem.New())
	defer l.Close(context.Background())
	var wg sync.WaitGroup
	var n atomic.Int64
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	var last uint64
	for range 64 {
		wg.Go(func() {
			for n.Add(1) <= int64(b.N) {
				lease, err := l.Lock(ctx, "x")
				if err != nil {
					b.Error(err)
					return
				}
				if lease.Fence() <= last {
					b.Error("fence", lease.Fence(), last)
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

func BenchmarkFree(b *testing.B) {
	l, _ := distlock.New(mem.New())
	defer l.Close(context.Background())
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Lock(ctx, "x")
		if err != nil {
			b.Fatal(err)
		}
		lease.Unlock(ctx)
	}
}
