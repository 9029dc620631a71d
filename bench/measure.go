package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"slices"
	"sync"
	"time"
)

const contenders = 64

// A bench runs one suite.
type bench struct {
	ctx      context.Context
	rounds   int
	each     time.Duration
	addrs    []string      // servers to use; nil: start servers
	quick    bool          // every benchmark once and short, to see that it runs
	limit    time.Duration // the longest time for one point of growth
	only     *regexp.Regexp
	out      io.Writer
	progress *progress

	round    int // the current round; round 0 is a warm-up and does not count
	tables   []table
	titles   []string          // of all tables, also of those that only does not match
	versions map[string]string // the versions of the servers that were started, by their name
}

// pick reports whether a table is to be measured.
func (b *bench) pick(title string) bool {
	b.titles = append(b.titles, title)
	return b.only == nil || b.only.MatchString(title)
}

// short returns n, or few in a quick run.
func (b *bench) short(n, few int) int {
	if b.quick {
		return few
	}
	return n
}

// pause returns d, or a moment in a quick run.
func (b *bench) pause(d time.Duration) time.Duration {
	if b.quick {
		return 100 * time.Millisecond
	}
	return d
}

// A deed is the operation that each of several goroutines repeats.
type deed func(ctx context.Context, worker int) error

// A scenario is one way to do something. open passes its clean-up functions to later.
type scenario struct {
	name string
	open func(later func(func())) (deed, error)
}

// A figure is the result of one round of a scenario.
type figure struct {
	Rate  float64       // deeds per second
	P50   time.Duration // of a single deed
	Worst time.Duration // the longest that a single deed took, or had taken when the round ended
	Jain  float64       // how evenly the deeds were spread over the goroutines: 1 is even

	Failed float64 // deeds that ended with errFailed
}

// errFailed means that a deed has failed, and that the next one may succeed.
var errFailed = errors.New("failed")

// errNothing means that a round ended before the first deed.
var errNothing = errors.New("nothing was done")

// A stack runs clean-up functions in reverse order.
type stack []func()

func (s *stack) push(f func()) { *s = append(*s, f) }

func (s *stack) undo() {
	for _, f := range slices.Backward(*s) {
		f()
	}
	*s = nil
}

// compare runs scenarios alternately, and returns their medians. Each round starts with another
// scenario, so that none always follows the same one.
func (b *bench) compare(title string, workers int, each time.Duration, scenarios ...scenario) ([]figure, error) {
	var s stack
	defer s.undo()
	deeds := make([]deed, len(scenarios))
	for i, sc := range scenarios {
		var err error
		if deeds[i], err = sc.open(s.push); err != nil {
			return nil, fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	return b.rotate(title, len(scenarios), func(i int) (figure, error) {
		name, d := scenarios[i].name, each
		if b.round == 0 {
			d = each / 5 // connections are made, scripts are loaded
		}
		f, err := b.measure(deeds[i], workers, d)
		if err != nil {
			return f, fmt.Errorf("%s: %w", name, err)
		}
		return f, nil
	})
}

// rotate calls f for each of n scenarios in b.rounds rounds, after a warm-up round 0 that does not
// count, and returns the medians.
func (b *bench) rotate(title string, n int, f func(i int) (figure, error)) ([]figure, error) {
	figures := make([][]figure, n)
	for b.round = 0; b.round <= b.rounds; b.round++ {
		for at := range n {
			i := (at + b.round) % n
			b.progress.show("%s: round %d of %d, %d of %d", title, b.round, b.rounds, at+1, n)
			got, err := f(i)
			if err == nil {
				err = b.ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			if b.round > 0 {
				figures[i] = append(figures[i], got)
			}
		}
	}
	b.progress.clear()
	out := make([]figure, n)
	for i, all := range figures {
		out[i] = figure{
			median(all, func(f figure) float64 { return f.Rate }),
			median(all, func(f figure) time.Duration { return f.P50 }),
			median(all, func(f figure) time.Duration { return f.Worst }),
			median(all, func(f figure) float64 { return f.Jain }),
			0,
		}
		for _, f := range all {
			out[i].Failed += f.Failed
		}
	}
	return out, nil
}

// measure repeats a deed for d.
func (b *bench) measure(do deed, workers int, d time.Duration) (figure, error) {
	runs, took, err := run(b.ctx, do, workers, d)
	if err != nil {
		return figure{}, err
	}
	return sum(runs, took)
}

// A tally is the result of one goroutine in a round.
type tally struct {
	Count float64
	Worst time.Duration

	failed float64
	spans  histogram
}

// slowest is the longest time that a short round waits for its first deed. A round of a second or
// more does not wait: one of several processes may get nothing while the others work.
const slowest = 10 * time.Second

// run repeats a deed in several goroutines for d. A short round lasts until the first deed is done.
// The context of the deeds is cancelled and has no deadline, since some libraries would use the
// deadline.
func run(parent context.Context, do deed, workers int, d time.Duration) ([]tally, time.Duration, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	tallies := make([]tally, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	start := time.Now()
	first := make(chan struct{})
	var once sync.Once
	timer := time.AfterFunc(d, func() {
		defer cancel()
		if d >= time.Second {
			return
		}
		select {
		case <-first:
		case <-ctx.Done():
		case <-time.After(slowest):
		}
	})
	defer timer.Stop()
	for w := range workers {
		wg.Go(func() {
			errs[w] = tallies[w].work(ctx, func() error { return do(ctx, w) }, func() { once.Do(func() { close(first) }) })
			if errs[w] != nil {
				cancel()
			}
		})
	}
	<-ctx.Done()
	took := time.Since(start)
	wg.Wait()
	return tallies, took, errors.Join(errs...)
}

// work repeats a deed until ctx ends. It calls first after its first deed.
func (t *tally) work(ctx context.Context, do func() error, first func()) error {
	began := time.Now()
	for ctx.Err() == nil {
		err := do()
		now := time.Now()
		t.Worst = max(t.Worst, now.Sub(began))
		switch {
		case err == nil:
			t.spans.add(now.Sub(began))
			if t.Count++; t.Count == 1 {
				first()
			}
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errFailed):
			t.failed++
		default:
			return err
		}
		began = now
	}
	return nil
}

// sum returns the figure of a round.
func sum(tallies []tally, took time.Duration) (figure, error) {
	var f figure
	var total, squares float64
	var spans histogram
	for _, t := range tallies {
		total += t.Count
		squares += t.Count * t.Count
		f.Worst = max(f.Worst, t.Worst)
		f.Failed += t.failed
		spans.merge(&t.spans)
	}
	if total == 0 {
		return f, fmt.Errorf("%w in %v", errNothing, took)
	}
	f.Rate, f.P50, f.Jain = total/took.Seconds(), spans.p50(), total*total/(float64(len(tallies))*squares)
	return f, nil
}

// A histogram counts durations in steps of less than one percent.
type histogram struct {
	counts [40 << 7]uint32
	total  uint64
}

func (h *histogram) add(d time.Duration) {
	h.counts[step(d)]++
	h.total++
}

// step returns the number of the step of a duration: there are 128 steps for each power of two.
func step(d time.Duration) int {
	n := uint64(max(d, 128))
	shift := bits.Len64(n) - 8
	return min(shift<<7+int(n>>shift)-128, 40<<7-1)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

func (h *histogram) p50() time.Duration {
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); seen*2 >= h.total && n > 0 {
			return time.Duration(uint64(i&127+128) << (i >> 7))
		}
	}
	return 0
}

func median[F any, T float64 | time.Duration](all []F, of func(F) T) T {
	values := make([]T, 0, len(all))
	for _, f := range all {
		values = append(values, of(f))
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
