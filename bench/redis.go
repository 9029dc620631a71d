package main

import (
	"context"
	"fmt"
	"runtime"
)

// redis measures distlock and its peers on one Redis server.
func (b *bench) redis() error {
	var s stack
	defer s.undo()
	addrs, err := b.servers(1, s.push)
	if err != nil {
		return err
	}
	addr := addrs[0]
	for _, f := range []func(addr string) error{
		b.freeKey, b.freeKeys, b.allocations, b.wakeUp, b.oneKey, b.processes, b.heldLeases, b.cutLink,
	} {
		if err := f(addr); err != nil {
			return err
		}
	}
	return nil
}

// names is how many free keys each goroutine uses one after the other.
const names = 1000

// onFreeKeys makes a scenario of a pair: each goroutine has its own names.
func onFreeKeys(addr string, w way, workers int) scenario {
	return scenario{w.name, func(later func(func())) (deed, error) {
		do, err := w.open(addr, later)
		if err != nil {
			return nil, err
		}
		return spread(do, w.name, workers), nil
	}}
}

func spread(do pair, tag string, workers int) deed {
	type own struct {
		next int
		_    [64]byte // counters of different goroutines share no cache line
	}
	keys, at := make([][]string, workers), make([]own, workers)
	for w := range keys {
		keys[w] = freeNames(tag, w)
	}
	return func(ctx context.Context, w int) error {
		at[w].next = (at[w].next + 1) % names
		return do(ctx, keys[w][at[w].next])
	}
}

// freeNames returns the names of one goroutine.
func freeNames(tag string, worker int) []string {
	keys := make([]string, names)
	for i := range keys {
		keys[i] = fmt.Sprintf("free-%.12s-%02d-%03d", tag, worker, i)
	}
	return keys
}

// compareWays compares all ways on free keys.
func (b *bench) compareWays(title, addr string, workers int) ([]majorityWay, []figure, [][]cost, error) {
	var all []majorityWay
	for _, w := range ways() {
		all = append(all, majorityWay{w.name, func(_ context.Context, addrs []string, later func(func())) (pair, error) {
			return w.open(addrs[0], later)
		}})
	}
	figures, costs, err := b.costs(title, []string{addr}, workers, all)
	return all, figures, costs, err
}

func (b *bench) freeKey(addr string) error {
	title := "Redis, free key, 1 goroutine: the pair"
	if !b.pick(title) {
		return nil
	}
	all, figures, costs, err := b.compareWays(title, addr, 1)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{p50, ratio, perSecond, worst, clientCPU, serverCPU}}
	base := figures[wayRaw].P50.Seconds()
	for i, f := range figures {
		client, server := typical(costs[i])
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Rate, f.Worst.Seconds(), client, server}})
	}
	ours := figures[wayOurs].P50.Seconds()
	t.Goals = []goal{
		atMost("p50, times the bare one", ours/base, 1.4),
		atMost("p50, times that of redislock", ours/figures[wayRedislock].P50.Seconds(), 1.1),
	}
	b.report(t)
	return nil
}

func (b *bench) freeKeys(addr string) error {
	title := fmt.Sprintf("Redis, free keys, %d goroutines: pairs", contenders)
	if !b.pick(title) {
		return nil
	}
	all, figures, costs, err := b.compareWays(title, addr, contenders)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, ratio, p50, worst, jain, clientCPU, serverCPU}}
	base := figures[waySame].Rate
	for i, f := range figures {
		client, server := typical(costs[i])
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.Rate, f.Rate / base, f.P50.Seconds(), f.Worst.Seconds(), f.Jain, client, server}})
	}
	best := 0.0
	for _, f := range figures[wayOurs+1:] {
		best = max(best, f.Rate)
	}
	t.Goals = []goal{
		atLeast("rate, times the bare one with the same data", figures[wayOurs].Rate/base, 0.9),
		atLeast("rate, times the best library", figures[wayOurs].Rate/best, 0.95),
	}
	b.report(t)
	return nil
}

// allocations counts the allocations of a pair in the process of the client.
func (b *bench) allocations(addr string) error {
	title := "Redis, free key, 1 goroutine: allocations for a pair"
	if !b.pick(title) {
		return nil
	}
	n := b.short(2000, 50)
	t := table{Title: title, Columns: []column{{"allocations", ""}, {"bytes", ""}}}
	for i, w := range ways() {
		var s stack
		do, err := w.open(addr, s.push)
		if err != nil {
			return err
		}
		d := spread(do, w.name, 1)
		count, bytes, err := allocated(b.ctx, d, n)
		s.undo()
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		t.Rows = append(t.Rows, row{w.name, []float64{count, bytes}})
		if i == wayOurs {
			t.Goals = []goal{atMost("allocations", count, 10)}
		}
	}
	b.report(t)
	return nil
}

// allocated returns the allocations and bytes of a deed, the mean of n after a warm-up.
func allocated(ctx context.Context, do deed, n int) (count, bytes float64, err error) {
	var before, after runtime.MemStats
	for i := range 2 * n {
		if i == n {
			runtime.ReadMemStats(&before)
		}
		if err := do(ctx, 0); err != nil {
			return 0, 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n), nil
}
