package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// Watch returns a channel that is ready when claims on the key ended on a majority of nodes, or
// when the losers of a split vote released their parts. There is no queue, so all watchers are
// woken. Each waits for a random moment, a few round trips long, so that one of them has acquired
// the key before the next one tries.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel) //nolint:contextcheck // it also ends with the store
	context.AfterFunc(ctx, func() { stop() })
	w := &watch{s: s, ctx: ctx, out: make(chan driver.Wake, 1), notified: make([]bool, len(s.nodes))}
	watching := begin(ctx, s, s.within, nil, func(_ context.Context, i int) (bool, error) {
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

// A watch combines the wake-ups of all nodes.
type watch struct {
	s   *Store
	ctx context.Context
	out chan driver.Wake

	mu       sync.Mutex
	notified []bool // the nodes that woke since the last wake-up of the watcher
}

// relay receives the wake-ups of one node.
func (w *watch) relay(node int, in <-chan driver.Wake) {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-in:
		}
		if w.note(node) {
			// The pause is a multiple of the last Acquire, so that watchers do not collide.
			pause := max(time.Duration(w.s.pace.Load()), shortest) * spread
			time.AfterFunc(rand.N(pause+1), w.wake) //nolint:gosec // it need not be unpredictable
		}
	}
}

// Watchers spread over spread times the duration of an Acquire.
const spread = 8

// shortest is the assumed minimum duration of an Acquire, so that watchers that lost together
// spread also when the nodes are very near.
const shortest = 100 * time.Microsecond

// note records a wake-up of a node, and reports whether a majority of nodes has woken.
func (w *watch) note(node int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notified[node] = true
	n := 0
	for _, yes := range w.notified {
		if yes {
			n++
		}
	}
	if n < w.s.majority() {
		return false
	}
	clear(w.notified)
	return true
}

func (w *watch) wake() {
	if w.ctx.Err() != nil {
		return
	}
	select {
	case w.out <- driver.Wake{}:
	default: // the channel is already ready
	}
}
