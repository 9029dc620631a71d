//go:build unix

package sqlite_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distlock/distlock/store/sqlite"
)

// BenchmarkIdle measures the share of a core that 50 idle waiters take. Each has its own store, as
// in its own process, renews its queue entry and polls once in a second.
func BenchmarkIdle(b *testing.B) {
	path := filepath.Join(b.TempDir(), "locks.db")
	holder, err := sqlite.Open(b.Context(), path, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { holder.Close() })
	held := exclusive("k", time.Hour)
	if _, err := holder.Acquire(b.Context(), held); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for range 50 {
		s, err := sqlite.Open(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		wg.Go(func() { wait(ctx, s) })
	}
	for b.Loop() {
		before := cpu(b)
		time.Sleep(5 * time.Second)
		b.ReportMetric(100*(cpu(b)-before).Seconds()/5, "%core")
	}
	cancel()
	wg.Wait()
}

func wait(ctx context.Context, s *sqlite.Store) {
	r := exclusive("k", 30*time.Second)
	wake := s.Watch(ctx, r.ID)
	for ctx.Err() == nil {
		_, _ = s.Acquire(ctx, r)
		select {
		case <-wake:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHandover measures the time from a release in one store to the grant in another that
// waits.
func BenchmarkHandover(b *testing.B) {
	path := filepath.Join(b.TempDir(), "locks.db")
	var stores [2]*sqlite.Store
	for i := range stores {
		var err error
		if stores[i], err = sqlite.Open(b.Context(), path, nil); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { stores[i].Close() })
	}
	ctx := b.Context()
	held := exclusive("k", time.Minute)
	if _, err := lock(stores[0], held); err != nil {
		b.Fatal(err)
	}
	at := 0
	for b.Loop() {
		next := exclusive("k", time.Minute)
		other := stores[1-at]
		wake := other.Watch(ctx, next.ID)
		if res, err := other.Acquire(ctx, next); err != nil || res.Granted {
			b.Fatal(res, err)
		}
		if err := stores[at].Release(ctx, held.ID); err != nil {
			b.Fatal(err)
		}
		<-wake
		if res, err := other.Acquire(ctx, next); err != nil || !res.Granted {
			b.Fatal(res, err)
		}
		held, at = next, 1-at
	}
}
