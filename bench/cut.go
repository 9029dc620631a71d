package main

import (
	"context"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// A cutter is a library whose holder is behind a link that is cut. The library can report whether
// the holder still trusts its lock.
type cutter struct {
	name string
	runs int
	// open returns two functions: hold acquires the key through the link and returns a function
	// that reports whether the holder trusts its lock; rival acquires the key directly.
	open func(link, addr string, life time.Duration, later func(func())) (hold func(ctx context.Context, key string) (trusts func() bool, err error), rival locker, err error)
}

func (b *bench) cutLink(addr string) error {
	return b.cutTable("Redis", addr, time.Second,
		cutter{"distlock", b.short(20, 1), cutOurs}, cutter{"rueidislock, 1 key", b.short(5, 1), cutRueidislock})
}

// cutTable measures for how long two holders trust their lock, after the link of the first was cut.
// The first library is distlock.
func (b *bench) cutTable(server, addr string, life time.Duration, all ...cutter) error {
	title := fmt.Sprintf("%s, the holder's link is cut, TTL %v: until when the holder trusts its lock, after the rival's Lock returned", server, life)
	if !b.pick(title) {
		return nil
	}
	t := table{Title: title, Columns: []column{{"runs", ""}, {"overlaps", ""}, worst, {"p50", "s"}}}
	for _, c := range all {
		var overlaps []time.Duration
		bad := 0
		for i := range c.runs {
			b.progress.show("the link of %s is cut: %d of %d", c.name, i+1, c.runs)
			d, err := b.cut(c, addr, fmt.Sprintf("cut-%.8s-%d", c.name, i), life)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if overlaps = append(overlaps, d); d > 0 {
				bad++
			}
		}
		b.progress.clear()
		most := overlaps[0]
		for _, d := range overlaps {
			most = max(most, d)
		}
		middle := median(overlaps, func(d time.Duration) time.Duration { return d })
		t.Rows = append(t.Rows, row{c.name, []float64{float64(c.runs), float64(bad), most.Seconds(), middle.Seconds()}})
	}
	t.Goals = []goal{atMost("seconds of overlap", t.Rows[0].Values[2], 0)}
	b.report(t)
	return nil
}

// cut is one run. The clock is read after the holder has reported its trust, and after the Lock of
// the rival has returned. Both times are of one clock, so the measured overlap is at least the real
// one.
func (b *bench) cut(c cutter, addr, key string, life time.Duration) (time.Duration, error) {
	var s stack
	defer s.undo()
	e, err := newEnv(s.push)
	if err != nil {
		return 0, err
	}
	var p *testenv.ProxyServer
	if err := e.do(func() { p = testenv.Proxy(e, addr) }); err != nil {
		return 0, err
	}
	take, rival, err := c.open(p.Addr, addr, life, s.push)
	if err != nil {
		return 0, err
	}
	s.push(p.Heal) // runs first, so that the rest can be closed
	trusts, err := take(b.ctx, key)
	if err != nil {
		return 0, err
	}
	type end struct {
		at  time.Time
		err error
	}
	granted := make(chan end, 1)
	go func() {
		h, err := rival.lock(b.ctx, key)
		at := time.Now()
		if err == nil {
			err = h.unlock()
		}
		granted <- end{at, err}
	}()
	time.Sleep(life/2 + time.Duration(len(key)*7%20)*life/40) // some renewals
	p.Cut(testenv.Both)
	last := time.Now()
	for limit := last.Add(20 * life); trusts(); {
		if last = time.Now(); last.After(limit) {
			return 0, fmt.Errorf("the holder still trusts its lock after %v", 20*life)
		}
	}
	select {
	case e := <-granted:
		return last.Sub(e.at), e.err
	case <-time.After(20 * life):
		return 0, fmt.Errorf("the rival has waited for %v", 20*life)
	}
}

func cutOurs(link, addr string, life time.Duration, later func(func())) (func(context.Context, string) (func() bool, error), locker, error) {
	far, err := openStore(link, later)
	if err != nil {
		return nil, nil, err
	}
	l, err := newDistlock(far, later, distlock.TTL(life))
	if err != nil {
		return nil, nil, err
	}
	rival, err := openDistlock(addr, later)
	return func(ctx context.Context, key string) (func() bool, error) {
		lease, err := l.Lock(ctx, key)
		return func() bool { return lease.Err() == nil }, err
	}, rival, err
}

func cutRueidislock(link, addr string, life time.Duration, later func(func())) (func(context.Context, string) (func() bool, error), locker, error) {
	l, err := newRueidislock(link, life, 1, later)
	if err != nil {
		return nil, nil, err
	}
	rival, err := newRueidislock(addr, life, 1, later)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, key string) (func() bool, error) {
		ctx, _, err := l.WithContext(ctx, key)
		return func() bool { return ctx.Err() == nil }, err
	}, polling{rival}, nil
}

// polling polls rueidislock: its own wait may miss that a key has expired.
type polling struct{ byRueidislock }

func (p polling) lock(ctx context.Context, key string) (hold, error) {
	for {
		_, cancel, err := p.TryWithContext(ctx, key)
		if err == nil || ctx.Err() != nil {
			return rueidislockHold(cancel), err
		}
		time.Sleep(time.Millisecond)
	}
}
