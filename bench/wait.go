package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	client "github.com/redis/rueidis"
)

// A waking measures one wake-up: the time from the start of the release until another process has
// the key.
type waking struct {
	name string
	open func(addr string, later func(func())) (func(ctx context.Context) (time.Duration, error), error)
}

// wakeUp measures how soon a waiter in another process has the key.
func (b *bench) wakeUp(addr string) error {
	title := "Redis, one waiter of another process: from the call of Unlock until Lock returns"
	if !b.pick(title) {
		return nil
	}
	all := []waking{wakeBaton()}
	for _, p := range append(peers(), byDefault()...) {
		all = append(all, wakeLocker(p))
	}
	return b.wakeTable(title, addr, all, times("p50, times the bare one", 1.5))
}

// times returns the goal of at most a multiple of the bare one.
func times(what string, limit float64) func(bare, ours time.Duration) goal {
	return func(bare, ours time.Duration) goal { return atMost(what, ours.Seconds()/bare.Seconds(), limit) }
}

// wakeTable measures wake-ups alternately, and reports them. The first is the bare one, and the
// second is distlock, which has a goal.
func (b *bench) wakeTable(title, addr string, all []waking, aim func(bare, ours time.Duration) goal) error {
	figures, err := b.wakes(title, addr, all)
	if err != nil {
		return err
	}
	b.reportWakes(title, all, figures, aim(figures[0].P50, figures[1].P50))
	return nil
}

func (b *bench) reportWakes(title string, all []waking, figures []figure, aims ...goal) {
	t := table{Title: title, Columns: []column{p50, ratio, worst}, Goals: aims}
	base := figures[0].P50.Seconds()
	for i, f := range figures {
		t.Rows = append(t.Rows, row{all[i].name, []float64{f.P50.Seconds(), f.P50.Seconds() / base, f.Worst.Seconds()}})
	}
	b.report(t)
}

// wakes measures wake-ups alternately.
func (b *bench) wakes(title, addr string, all []waking) ([]figure, error) {
	var s stack
	defer s.undo()
	wakes := make([]func(context.Context) (time.Duration, error), len(all))
	for i, w := range all {
		var err error
		if wakes[i], err = w.open(addr, s.push); err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.name
	}
	return b.wakeRounds(title, names, wakes)
}

// wakeRounds measures wake-ups alternately.
func (b *bench) wakeRounds(title string, names []string, wakes []func(context.Context) (time.Duration, error)) ([]figure, error) {
	least := uint64(b.short(3, 1))
	return b.rotate(title, len(wakes), func(i int) (f figure, err error) {
		var spans histogram
		for until := time.Now().Add(2 * b.each); time.Now().Before(until) || spans.total < least; {
			d, err := wakes[i](b.ctx)
			if err != nil {
				return f, fmt.Errorf("%s: %w", names[i], err)
			}
			f.Worst = max(f.Worst, d)
			spans.add(d)
		}
		f.P50 = spans.p50()
		return f, nil
	})
}

// settle gives a waiter time to enter the queue, and to block.
func settle() { time.Sleep(5*time.Millisecond + rand.N(5*time.Millisecond)) }

// missed is the longest wait for a wake-up. A wake-up that takes longer counts as this long.
const missed = 2 * time.Second

// handOver starts wait, and calls give after settle, when wait blocks. It returns the time from the
// call of give to the end of wait.
func handOver(wait, give func() error, settle func()) (time.Duration, error) {
	type end struct {
		at  time.Time
		err error
	}
	ended := make(chan end, 1)
	go func() {
		err := wait()
		ended <- end{time.Now(), err}
	}()
	settle()
	began := time.Now()
	if err := give(); err != nil {
		return 0, err
	}
	e := <-ended
	return e.at.Sub(began), e.err
}

// wakeLocker measures a library, with a client for each of the two processes.
func wakeLocker(p peer) waking { return wakeAfter(p, settle) }

func wakeAfter(p peer, settle func()) waking {
	return waking{p.name, func(addr string, later func(func())) (func(context.Context) (time.Duration, error), error) {
		first, err := p.open(addr, later)
		if err != nil {
			return nil, err
		}
		second, err := p.open(addr, later)
		if err != nil {
			return nil, err
		}
		key, n := fmt.Sprintf("wake-%.16s", p.name), 0
		return func(ctx context.Context) (time.Duration, error) {
			n++
			name := fmt.Sprintf("%s-%d", key, n%names)
			h, err := first.lock(ctx, name)
			if err != nil {
				return 0, err
			}
			limited, cancel := context.WithCancel(ctx)
			defer cancel()
			defer time.AfterFunc(missed, cancel).Stop()
			var next hold
			d, err := handOver(func() (err error) {
				next, err = second.lock(limited, name)
				return err
			}, h.unlock, settle)
			switch {
			case err != nil && limited.Err() != nil && ctx.Err() == nil:
				return missed, nil
			case err != nil:
				return 0, err
			}
			return d, next.unlock()
		}, nil
	}}
}

// wakeBaton is the minimum for a server: one process waits in BLPOP, and another pushes.
func wakeBaton() waking {
	return waking{"raw: LPUSH to a client in BLPOP", func(addr string, later func(func())) (func(context.Context) (time.Duration, error), error) {
		first, err := connect(addr, later)
		if err != nil {
			return nil, err
		}
		second, err := connect(addr, later)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (time.Duration, error) {
			return handOver(func() error { return takeBaton(ctx, second, "wake-baton") },
				func() error { return passBaton(ctx, first, "wake-baton") }, settle)
		}, nil
	}}
}

func takeBaton(ctx context.Context, c client.Client, key string) error {
	return c.Do(ctx, c.B().Blpop().Key(key).Timeout(0).Build()).Error()
}

func passBaton(ctx context.Context, c client.Client, key string) error {
	return c.Do(ctx, c.B().Lpush().Key(key).Element("1").Build()).Error()
}

// longer is how many times longer a round on one key takes, so that the worst wait shows.
const longer = 4

// oneKey measures one key that all goroutines of one process contend for.
func (b *bench) oneKey(addr string) error {
	title := fmt.Sprintf("Redis, one key, %d goroutines of one process, hold 0", contenders)
	if !b.pick(title) {
		return nil
	}
	scenarios := []scenario{baton()}
	for _, p := range peers() {
		scenarios = append(scenarios, scenario{p.name, func(later func(func())) (deed, error) {
			l, err := p.open(addr, later)
			if err != nil {
				return nil, err
			}
			return b.contend(l, fmt.Sprintf("one-%.16s", p.name)), nil
		}})
	}
	figures, err := b.compare(title, contenders, longer*b.each, scenarios...)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{perSecond, ratio, worst, jain}}
	best := 0.0
	for _, f := range figures[2:] {
		best = max(best, f.Rate)
	}
	for i, f := range figures {
		t.Rows = append(t.Rows, row{scenarios[i].name, []float64{f.Rate, f.Rate / best, f.Worst.Seconds(), f.Jain}})
	}
	t.Goals = contendedGoals(figures[1], best)
	b.report(t)
	return nil
}

// contendedGoals returns the goals of distlock on one contended key.
func contendedGoals(f figure, best float64) []goal {
	return []goal{
		atLeast("rate, times the best library", f.Rate/best, 30),
		below("worst wait", f.Worst, 100*time.Millisecond),
		atLeast("Jain's index", f.Jain, 0.95),
	}
}

// contend acquires and releases one key, another one in each round: a lock that one round left
// behind must not block the next round. It checks the fences of distlock.
func (b *bench) contend(l locker, tag string) deed {
	keys := make([]string, b.rounds+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", tag, i)
	}
	last := make([]uint64, len(keys)) // only the holder of the key writes it
	return func(ctx context.Context, _ int) error {
		h, err := l.lock(ctx, keys[b.round])
		if err != nil {
			return err
		}
		if lease, ok := h.(ourHold); ok {
			if lease.Fence() <= last[b.round] {
				return fmt.Errorf("fence %d after %d", lease.Fence(), last[b.round])
			}
			last[b.round] = lease.Fence()
		}
		return h.unlock()
	}
}
