package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// Watch is ready when claims on the key ended on a majority of nodes, or the losers of a split
// vote gave up their parts of it. There is no line, so all who watch are woken; each waits for a moment by
// chance, a few round trips long, so that one of them has asked before the next does.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel) //nolint:contextcheck // it ends with the store, too
	context.AfterFunc(ctx, func() { stop() })
	w := &watch{s: s, ctx: ctx, out: make(chan driver.Wake, 1), told: make([]bool, len(s.nodes))}
	watching := begin(ctx, s, s.within, func(_ context.Context, i int) (bool, error) {
		in := driver.Watch(ctx, s.nodes[i], driver.ID{Key: id.Key})
		if in != nil {
			s.wg.Go(func() { w.relay(i, in) })
		}
		return in != nil, nil
	}).all(ctx)
	able := 0
	for _, v := range watching {
		if v.value {
			able++
		}
	}
	if able < s.majority() {
		cancel()
		return nil
	}
	return w.out
}

// A watch gathers the news of all nodes.
type watch struct {
	s   *Store
	ctx context.Context
	out chan driver.Wake

	mu   sync.Mutex
	told []bool // which nodes had news since the last wake-up
}

// relay takes the news of one node.
func (w *watch) relay(node int, in <-chan driver.Wake) {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-in:
		}
		if w.news(node) {
			// A little longer than the last question took, for each to be out of the other's way.
			pause := max(time.Duration(w.s.pace.Load()), shortest) * spread
			time.AfterFunc(rand.N(pause+1), w.wake) //nolint:gosec // it need not be hard to guess
		}
	}
}

// spread is over how many times the length of an Acquire those who watch are spread.
const spread = 8

// shortest is the least that an Acquire is thought to take, so that those who lost together part, however near the nodes.
const shortest = 100 * time.Microsecond

// news notes that a node had news, and reports whether a majority has.
func (w *watch) news(node int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[node] = true
	n := 0
	for _, told := range w.told {
		if told {
			n++
		}
	}
	if n < w.s.majority() {
		return false
	}
	clear(w.told)
	return true
}

func (w *watch) wake() {
	if w.ctx.Err() != nil {
		return
	}
	select {
	case w.out <- driver.Wake{}:
	default: // it is ready already
	}
}
