package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func (b *bench) core() error {
	if err := b.rates(fmt.Sprintf("one key, %d goroutines of one process, hold 0, no server", contenders), contenders,
		baton(), contended()); err != nil {
		return err
	}
	if err := b.rates("a free key, 1 goroutine, no server: Lock and Unlock", 1, rawPair(), freePair()); err != nil {
		return err
	}
	return b.leases()
}

// rates compares rates. The ratios are relative to the first scenario.
func (b *bench) rates(title string, workers int, scenarios ...scenario) error {
	if !b.pick(title) {
		return nil
	}
	figures, err := b.compare(title, workers, b.each, scenarios...)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, ratio, worst, jain}}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{scenarios[i].name, []float64{f.Rate, f.Rate / figures[0].Rate, f.Worst.Seconds(), f.Jain}})
	}
	b.report(t)
	return nil
}

// baton is the fastest hand-off without a store: a channel.
func baton() scenario {
	return scenario{"a channel as baton, no store", func(later func(func())) (deed, error) {
		baton := make(chan struct{}, 1)
		baton <- struct{}{}
		return func(ctx context.Context, _ int) error {
			select {
			case <-baton:
				baton <- struct{}{}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil
	}}
}

// contended contends for one key, and checks under the lock that every fence is above the previous
// one.
func contended() scenario {
	return scenario{"distlock on store/mem, fences checked", func(later func(func())) (deed, error) {
		l := must(distlock.New(mem.New()))
		later(func() { _ = l.Close(context.Background()) })
		var last uint64
		return func(ctx context.Context, _ int) error {
			lease, err := l.Lock(ctx, "key")
			if err != nil {
				return err
			}
			if lease.Fence() <= last {
				return fmt.Errorf("fence %d after %d", lease.Fence(), last)
			}
			last = lease.Fence()
			return lease.Unlock(ctx)
		}, nil
	}}
}

// rawPair makes only the two calls to the store.
func rawPair() scenario {
	return scenario{"store/mem: Acquire and Release", func(later func(func())) (deed, error) {
		s := mem.New()
		var n atomic.Int64
		return func(ctx context.Context, _ int) error {
			ctx = context.WithoutCancel(ctx) // a pair that has started is finished
			id := driver.ID{Key: "key", Owner: fmt.Sprint(n.Add(1))}
			_, err := s.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: 30 * time.Second})
			if err != nil {
				return err
			}
			return s.Release(ctx, id)
		}, nil
	}}
}

func freePair() scenario {
	return scenario{"distlock on store/mem", func(later func(func())) (deed, error) {
		l := must(distlock.New(mem.New()))
		later(func() { _ = l.Close(context.Background()) })
		return func(ctx context.Context, _ int) error {
			lease, err := l.Lock(ctx, "key")
			if err != nil {
				return err
			}
			return lease.Unlock(ctx)
		}, nil
	}}
}

// renewals counts renewed claims and the calls that renew them.
type renewals struct {
	driver.Store
	calls, n atomic.Int64
}

// RenewAll renews many claims.
func (r *renewals) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	r.calls.Add(1)
	r.n.Add(int64(len(rs)))
	return driver.RenewAll(ctx, r.Store, rs)
}

// Renew renews one claim.
func (r *renewals) Renew(ctx context.Context, one driver.Renewal) (int, error) {
	r.calls.Add(1)
	r.n.Add(1)
	return r.Store.Renew(ctx, one)
}

// leases holds 10,000 leases for two renewal intervals.
func (b *bench) leases() error {
	const ttl = 6 * time.Second
	n, hold := b.short(10_000, 100), b.pause(2*ttl/3)
	if !b.pick("leases held") {
		return nil
	}
	s := &renewals{Store: mem.New()}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("lease/%05d", i)
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	l := must(distlock.New(s, distlock.TTL(ttl)))
	defer func() { _ = l.Close(context.Background()) }()
	leases := make([]*distlock.Lease, n)
	for i := range leases {
		var err error
		if leases[i], err = l.Lock(b.ctx, names[i]); err != nil {
			return err
		}
	}
	bytes := (float64(heap()) - float64(before)) / float64(n)
	most := 0
	cpu := processTime()
	start := time.Now()
	for time.Since(start) < hold && b.ctx.Err() == nil {
		b.progress.show("holding %d leases: %v of %v", n, time.Since(start).Round(time.Second), hold)
		most = max(most, runtime.NumGoroutine()-goroutines)
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(start)
	cpu = processTime() - cpu
	b.progress.clear()
	lost := 0
	for _, lease := range leases {
		if lease.Err() != nil {
			lost++
		}
	}
	b.report(table{
		Title:   fmt.Sprintf("%d leases held for %v with a TTL of %v, on store/mem", n, took.Round(time.Second), ttl),
		Columns: []column{{"value", ""}},
		Rows: []row{
			{"goroutines added, at most", []float64{float64(most)}},
			{"bytes a lease, store included", []float64{bytes}},
			{"renewals", []float64{float64(s.n.Load())}},
			{"renewals a call", []float64{float64(s.n.Load()) / float64(max(1, s.calls.Load()))}},
			{"percent of one core", []float64{100 * cpu.Seconds() / took.Seconds()}},
			{"lost", []float64{float64(lost)}},
		},
	})
	if lost > 0 {
		return fmt.Errorf("%d leases were lost", lost)
	}
	return b.ctx.Err()
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
