package drivertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// Bench measures a store in real time, each of these as a sub-benchmark:
//
//   - pairs/N: an Acquire and a Release of a free key, by N goroutines;
//   - renewall/N: a RenewAll of N claims on as many keys;
//   - behind/N: an attempt of the last owner in a queue of N;
//   - among/N: an Acquire and a Release of the last of N slots of a key.
//
// The figures of one row should hardly grow with N, except for renewall: there ns/claim should
// fall. With [Env].Ping each also reports the cost of a call in round trips, as pings/op.
func Bench(b *testing.B, env Env) {
	f := env.Open(b).Features()
	ping := env.ping(b)
	row := func(name string, n int, bench func(b *testing.B, s driver.Store, n int)) {
		b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
			s := env.Open(b)
			bench(b, s, n)
			if ping > 0 {
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(ping), "pings/op")
			}
		})
	}
	for _, n := range []int{1, 16} {
		row("pairs", n, benchPairs)
	}
	for _, n := range []int{1, 100, 1000} {
		row("renewall", n, benchRenewAll)
	}
	for _, n := range []int{1, 1000} {
		if f.Queue {
			row("behind", n, benchBehind)
		}
		if f.Count {
			row("among", n, benchAmong)
		}
	}
}

// ping returns the median of many round trips, or 0 without Env.Ping.
func (e Env) ping(b *testing.B) time.Duration {
	if e.Ping == nil {
		return 0
	}
	all := make([]time.Duration, 201)
	for i := range all {
		began := time.Now()
		if err := e.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func benchRequest(key string) driver.Request {
	return driver.Request{
		ID:     driver.ID{Key: key, Owner: rand.Text()},
		Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, Holder: "bench",
	}
}

func benchPairs(b *testing.B, s driver.Store, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range n {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				// Each goroutine has keys of its own: one that is late meets no other.
				if err := benchPair(b.Context(), s, benchRequest(fmt.Sprint("key-", w, "-", i%4))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func benchPair(ctx context.Context, s driver.Store, r driver.Request) error {
	res, err := s.Acquire(ctx, r)
	if err == nil && !res.Granted {
		return fmt.Errorf("refused by %+v", res.Blocker)
	}
	if err != nil {
		return err
	}
	return s.Release(ctx, r.ID)
}

func benchRenewAll(b *testing.B, s driver.Store, n int) {
	rs := make([]driver.Renewal, n)
	benchEach(b, n, func(i int) error {
		r := benchRequest(fmt.Sprint("key-", i))
		rs[i] = driver.Renewal{ID: r.ID, TTL: r.TTL}
		_, err := s.Acquire(b.Context(), r)
		return err
	})
	for b.Loop() {
		for i, got := range driver.RenewAll(b.Context(), s, rs) {
			if got.Err != nil {
				b.Fatalf("claim %d: %v", i, got.Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/claim")
}

func benchBehind(b *testing.B, s driver.Store, n int) {
	if _, err := s.Acquire(b.Context(), benchRequest("key")); err != nil {
		b.Fatal(err)
	}
	entry := func() driver.Request {
		r := benchRequest("key")
		r.QueueTTL = 10 * time.Minute
		return r
	}
	benchEach(b, n-1, func(int) error {
		_, err := s.Acquire(b.Context(), entry())
		return err
	})
	last := entry()
	for b.Loop() {
		if res, err := s.Acquire(b.Context(), last); err != nil || res.Granted || res.Ahead < min(n-1, 17) {
			b.Fatalf("granted %v, ahead %d, error %v", res.Granted, res.Ahead, err)
		}
	}
}

func benchAmong(b *testing.B, s driver.Store, n int) {
	slot := func() driver.Request {
		r := benchRequest("key")
		r.Weight, r.Limit = 1, int64(n)
		return r
	}
	benchEach(b, n-1, func(int) error {
		_, err := s.Acquire(b.Context(), slot())
		return err
	})
	for b.Loop() {
		if err := benchPair(b.Context(), s, slot()); err != nil {
			b.Fatal(err)
		}
	}
}

// benchEach prepares a benchmark with n calls, several at a time.
func benchEach(b *testing.B, n int, call func(i int) error) {
	const workers = 16
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := call(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
