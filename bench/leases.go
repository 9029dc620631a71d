package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	client "github.com/redis/rueidis"

	"github.com/distlock/distlock"
)

// held has counters for the leases of one library that are held at the same time.
type held struct {
	lost    func() int
	renewed func() float64 // the number of renewals; nil: one per round trip
}

// heldLeases holds 10,000 leases for two renewal intervals.
func (b *bench) heldLeases(addr string) error {
	const life = 15 * time.Second
	n, pause := b.short(10_000, 100), b.pause(2*life/3)
	title := fmt.Sprintf("Redis, %d leases held with a TTL of %v, for %v", n, life, pause)
	if !b.pick(title) {
		return nil
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("lease/%05d", i)
	}
	t := table{Title: title, Columns: []column{
		{"goroutines", ""}, {"bytes each", ""}, {"renewals", ""}, {"a round trip", ""}, {"client", "%"}, {"server", "%"}, {"lost", ""},
	}}
	for _, way := range []struct {
		name string
		hold func(addr string, life time.Duration, keys []string, later func(func())) (held, error)
	}{{"distlock", b.holdOurs}, {"rueidislock, 1 key", b.holdRueidislock}} {
		values, err := b.observe(addr, way.name, pause, func(later func(func())) (held, error) { return way.hold(addr, life, keys, later) }, n)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		t.Rows = append(t.Rows, row{way.name, values})
	}
	ours := t.Rows[0].Values
	t.Goals = []goal{
		atMost("goroutines added, with those of the client", ours[0], 32),
		atMost("bytes a lease", ours[1], 2048),
		atLeast("renewals a round trip", ours[3], 500),
		atMost("leases lost", ours[6], 0),
	}
	b.report(t)
	return nil
}

// observe measures the cost of n leases that are held for d.
func (b *bench) observe(addr, name string, d time.Duration, take func(later func(func())) (held, error), n int) ([]float64, error) {
	var s stack
	defer s.undo()
	c, err := connect(addr, s.push)
	if err != nil {
		return nil, err
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	h, err := take(s.push)
	if err != nil {
		return nil, err
	}
	bytes := (float64(heap()) - float64(before)) / float64(n)
	renewed := func() float64 { return 0 }
	if h.renewed != nil {
		renewed = h.renewed
	}
	calls, cpu, process, count := info(b.ctx, c, "commandstats", "cmdstat_evalsha:calls="), serverTime(b.ctx, c), processTime(), renewed()
	start, most := time.Now(), 0
	for time.Since(start) < d && b.ctx.Err() == nil {
		b.progress.show("%s holds %d leases: %v of %v", name, n, time.Since(start).Round(time.Second), d)
		most = max(most, runtime.NumGoroutine()-goroutines)
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(start).Seconds()
	process, cpu = processTime()-process, serverTime(b.ctx, c)-cpu
	calls, count = info(b.ctx, c, "commandstats", "cmdstat_evalsha:calls=")-calls, renewed()-count
	b.progress.clear()
	if h.renewed == nil {
		count = calls
	}
	return []float64{
		float64(most), bytes, count, count / max(1, calls), 100 * process.Seconds() / took, 100 * cpu / took, float64(h.lost()),
	}, b.ctx.Err()
}

// holdOurs acquires the leases with distlock.
func (b *bench) holdOurs(addr string, life time.Duration, keys []string, later func(func())) (held, error) {
	s, err := openStore(addr, later)
	if err != nil {
		return held{}, err
	}
	count := &renewals{Store: s}
	l, err := newDistlock(count, later, distlock.TTL(life))
	if err != nil {
		return held{}, err
	}
	leases := make([]*distlock.Lease, len(keys))
	for i, key := range keys {
		if leases[i], err = l.Lock(b.ctx, key); err != nil {
			return held{}, err
		}
	}
	return held{func() (lost int) {
		for _, lease := range leases {
			if lease.Err() != nil {
				lost++
			}
		}
		return lost
	}, func() float64 { return float64(count.n.Load()) }}, nil
}

// holdRueidislock acquires the leases with rueidislock.
func (b *bench) holdRueidislock(addr string, life time.Duration, keys []string, later func(func())) (held, error) {
	l, err := newRueidislock(addr, life, 1, later)
	if err != nil {
		return held{}, err
	}
	ctxs := make([]context.Context, len(keys))
	for i, key := range keys {
		if ctxs[i], _, err = l.WithContext(b.ctx, key); err != nil { // Close ends the contexts
			return held{}, err
		}
	}
	return held{lost: func() (lost int) {
		for _, ctx := range ctxs {
			if ctx.Err() != nil {
				lost++
			}
		}
		return lost
	}}, nil
}

// info returns the number that follows a word in the output of INFO.
func info(ctx context.Context, c client.Client, section, word string) float64 {
	text, err := c.Do(ctx, c.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(text, word)
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	v, _ := strconv.ParseFloat(rest[:max(0, end)], 64)
	return v
}

// serverTime returns the CPU time of the server in seconds.
func serverTime(ctx context.Context, c client.Client) float64 {
	return info(ctx, c, "cpu", "used_cpu_user:") + info(ctx, c, "cpu", "used_cpu_sys:")
}
