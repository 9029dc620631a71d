package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

const contenders = 64

type bench struct {
	ctx           context.Context
	rounds        int
	each          time.Duration
	out, progress io.Writer
}

// A scenario is something that can be done again and again by one of several goroutines.
type scenario struct {
	name string
	open func() (do func(ctx context.Context, worker int) error, closeAll func())
}

// A figure is what one round of a scenario gave.
type figure struct {
	rate  float64       // deeds per second
	worst time.Duration // the longest that a single deed took
	jain  float64       // how evenly the deeds were spread over the goroutines: 1 is even
}

func (b *bench) core() error {
	if err := b.compare(fmt.Sprintf("one key, %d goroutines of one process, hold 0", contenders), contenders,
		baton(), contended()); err != nil {
		return err
	}
	if err := b.compare("a free key, 1 goroutine: take and give back", 1, rawPair(), freePair()); err != nil {
		return err
	}
	return b.leases()
}

// compare runs scenarios in turn, and prints medians; the first one is the measure of the others.
func (b *bench) compare(title string, workers int, scenarios ...scenario) error {
	figures := make([][]figure, len(scenarios))
	for round := range b.rounds {
		for i, s := range scenarios {
			fmt.Fprintf(b.progress, "\r%s: round %d of %d, %-30s", title, round+1, b.rounds, s.name)
			f, err := b.measure(s, workers)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			figures[i] = append(figures[i], f)
		}
	}
	fmt.Fprintf(b.progress, "\r%100s\r", "")
	fmt.Fprintf(b.out, "%s (medians of %d interleaved rounds of %v)\n", title, b.rounds, b.each)
	fmt.Fprintf(b.out, "  %-40s %12s %8s %12s %6s\n", "", "per second", "ratio", "worst", "Jain")
	base := median(figures[0], func(f figure) float64 { return f.rate })
	for i, s := range scenarios {
		rate := median(figures[i], func(f figure) float64 { return f.rate })
		worst := median(figures[i], func(f figure) float64 { return float64(f.worst) })
		jain := median(figures[i], func(f figure) float64 { return f.jain })
		fmt.Fprintf(b.out, "  %-40s %12.0f %8.2f %12v %6.3f\n", s.name, rate, rate/base, time.Duration(worst).Round(time.Microsecond), jain)
	}
	fmt.Fprintln(b.out)
	return nil
}

func (b *bench) measure(s scenario, workers int) (figure, error) {
	do, closeAll := s.open()
	defer closeAll()
	ctx, cancel := context.WithTimeout(b.ctx, b.each)
	defer cancel()
	counts := make([]float64, workers)
	worst := make([]time.Duration, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	start := time.Now()
	for w := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := do(ctx, w); err != nil {
					if ctx.Err() == nil {
						errs[w] = err
					}
					return
				}
				worst[w] = max(worst[w], time.Since(began))
				counts[w]++
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return figure{}, err
		}
	}
	var sum, squares float64
	for _, n := range counts {
		sum += n
		squares += n * n
	}
	if sum == 0 {
		return figure{}, fmt.Errorf("nothing was done in %v", took)
	}
	return figure{sum / took.Seconds(), slices.Max(worst), sum * sum / (float64(workers) * squares)}, b.ctx.Err()
}

// baton is the best that can be had without a store: a channel that goes from hand to hand.
func baton() scenario {
	return scenario{"a channel as baton, no store", func() (func(context.Context, int) error, func()) {
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
		}, func() {}
	}}
}

// contended checks that every fence is above the one before, since it has the lock when it looks.
func contended() scenario {
	return scenario{"distlock on store/mem, fences checked", func() (func(context.Context, int) error, func()) {
		l := must(distlock.New(mem.New()))
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
		}, func() { _ = l.Close(context.Background()) }
	}}
}

// rawPair is the same two calls to the store, and nothing else.
func rawPair() scenario {
	return scenario{"store/mem: Acquire and Release", func() (func(context.Context, int) error, func()) {
		s := mem.New()
		var n atomic.Int64
		return func(ctx context.Context, _ int) error {
			id := driver.ID{Key: "key", Owner: fmt.Sprint(n.Add(1))}
			_, err := s.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: 30 * time.Second})
			if err != nil {
				return err
			}
			return s.Release(ctx, id)
		}, func() {}
	}}
}

func freePair() scenario {
	return scenario{"distlock on store/mem", func() (func(context.Context, int) error, func()) {
		l := must(distlock.New(mem.New()))
		return func(ctx context.Context, _ int) error {
			lease, err := l.Lock(ctx, "key")
			if err != nil {
				return err
			}
			return lease.Unlock(ctx)
		}, func() { _ = l.Close(context.Background()) }
	}}
}

// counting counts what is renewed, in how many calls.
type counting struct {
	*mem.Store
	calls, renewed atomic.Int64
}

func (c *counting) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	c.calls.Add(1)
	c.renewed.Add(int64(len(rs)))
	return c.Store.RenewAll(ctx, rs)
}

func (c *counting) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	c.calls.Add(1)
	c.renewed.Add(1)
	return c.Store.Renew(ctx, r)
}

// leases holds 10,000 leases for two renewal intervals.
func (b *bench) leases() error {
	const n, ttl = 10_000, 6 * time.Second
	s := &counting{Store: mem.New()}
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
	bytes := float64(heap()-before) / n
	most := 0
	cpu := processTime()
	start := time.Now()
	for time.Since(start) < 2*ttl/3 && b.ctx.Err() == nil {
		fmt.Fprintf(b.progress, "\rholding %d leases: %v of %v ", n, time.Since(start).Round(time.Second), 2*ttl/3)
		most = max(most, runtime.NumGoroutine()-goroutines)
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(start)
	cpu = processTime() - cpu
	fmt.Fprintf(b.progress, "\r%60s\r", "")
	lost := 0
	for _, lease := range leases {
		if lease.Err() != nil {
			lost++
		}
	}
	fmt.Fprintf(b.out, "%d leases held for %v with a TTL of %v, on store/mem\n", n, took.Round(time.Second), ttl)
	fmt.Fprintf(b.out, "  goroutines added, at most                %12d\n", most)
	fmt.Fprintf(b.out, "  bytes a lease, store included            %12.0f\n", bytes)
	fmt.Fprintf(b.out, "  renewals / calls = renewals a call       %12s\n",
		fmt.Sprintf("%d / %d = %.0f", s.renewed.Load(), s.calls.Load(), float64(s.renewed.Load())/float64(max(1, s.calls.Load()))))
	fmt.Fprintf(b.out, "  of one core                              %11.1f%%\n", 100*cpu.Seconds()/took.Seconds())
	fmt.Fprintf(b.out, "  lost                                     %12d\n", lost)
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

func median(figures []figure, of func(figure) float64) float64 {
	all := make([]float64, 0, len(figures))
	for _, f := range figures {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
