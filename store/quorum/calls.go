package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// calls keeps the calls about one claim in order on each node. A caller goes on when a majority has
// answered; what it does next about the same claim must not overtake, at a slow node,
// what it did before. A release that overtakes its acquire releases nothing, and an acquire that
// overtakes the release of an earlier try is undone by it, though it was counted.
type calls struct {
	mu     sync.Mutex
	under  map[call]*queue
	asking map[driver.ID]chan struct{} // closed when the Acquire under way is over

	// A release that was not answered may arrive at any time later. Until that can be ruled
	// out, what the node grants to the same owner may be taken back, and is not asked for.
	doubts map[call]time.Time
	order  []call // of doubts, in the order in which they end
}

// A call is what is asked of one node about one claim.
type call struct {
	driver.ID
	node int
}

// A queue is the calls about one claim that a node has not answered.
type queue struct {
	last     chan struct{} // closed when the last of them is over
	n        int
	releases int // how many of them are releases
}

// longestQueue is how many calls about one claim a node may owe an answer before it is asked for it no more: two
// acquires, each with the release after it. A waiter asks again and again; a node that hangs
// must not gather all that.
const longestQueue = 4

// A slot is one call's place in a queue.
type slot struct {
	calls   *calls
	call    call
	acquire bool
	before  <-chan struct{} // closed when the call may be made; nil: at once
	own     chan struct{}   // nil: it is not to be made
	err     error           // why not
	entered bool
}

// ask waits until no other Acquire of the claim is under way: they would raise each other's fence.
func (c *calls) ask(ctx context.Context, id driver.ID) (leave func(), err error) {
	for {
		c.mu.Lock()
		other := c.asking[id]
		if other == nil {
			break
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer c.mu.Unlock()
	if c.asking == nil {
		c.asking = map[driver.ID]chan struct{}{}
	}
	over := make(chan struct{})
	c.asking[id] = over
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asking, id)
		close(over)
	}, nil
}

// acquires takes a slot for an Acquire on every one of n nodes, but for those where it would not count.
func (c *calls) acquires(id driver.ID, n int) []*slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*slot, n)
	for i := range out {
		out[i] = c.slot(call{id, i}, true)
	}
	return out
}

// releases takes a slot for a release on every one of n nodes, but for those for which there is a reason not to.
func (c *calls) releases(id driver.ID, n int, not func(i int) error) []*slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*slot, n)
	for i := range out {
		if err := not(i); err != nil {
			out[i] = &slot{err: err}
		} else {
			out[i] = c.slot(call{id, i}, false)
		}
	}
	return out
}

// slot takes one slot. The lock is held.
func (c *calls) slot(k call, acquire bool) *slot {
	q := c.under[k]
	switch {
	case acquire && q != nil && q.n >= longestQueue:
		return &slot{call: k, err: errBusy}
	case acquire && c.doubtful(k):
		return &slot{call: k, err: errDoubt}
	}
	s := &slot{calls: c, call: k, acquire: acquire, own: make(chan struct{})}
	if q == nil {
		if c.under == nil {
			c.under = map[call]*queue{}
		}
		q = &queue{}
		c.under[k] = q
	} else {
		s.before = q.last
	}
	q.last = s.own
	q.n++
	if !acquire {
		q.releases++
	}
	return s
}

// enter waits until the call may be made. If it returns an error, it must not be made.
func (s *slot) enter(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if s.before != nil {
		select {
		case <-s.before:
		case <-ctx.Done():
			return errBusy
		}
	}
	s.entered = true
	if s.acquire { // the release before it may not have been answered
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		if s.calls.doubtful(s.call) {
			return errDoubt
		}
	}
	return nil
}

// leave lets the next call go, also if this one was not made.
func (s *slot) leave(store *Store) {
	if s.own == nil {
		return
	}
	if !s.entered {
		store.wg.Go(func() {
			<-s.before // still before all that come after
			store.calls.over(s)
		})
		return
	}
	store.calls.over(s)
}

func (c *calls) over(s *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(s.own)
	q := c.under[s.call]
	if !s.acquire {
		q.releases--
	}
	if q.n--; q.n == 0 {
		delete(c.under, s.call)
	}
}

// releasing reports whether a claim is being released on one of n nodes.
func (c *calls) releasing(id driver.ID, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		if q := c.under[call{id, i}]; q != nil && q.releases > 0 {
			return true
		}
	}
	return false
}

// doubtful reports whether a release may still arrive. The lock is held.
func (c *calls) doubtful(k call) bool { return time.Now().Before(c.doubts[k]) }

// suspect notes that a release was not answered, and forgets what is too old to matter.
func (c *calls) suspect(k call, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubts == nil {
		c.doubts = map[call]time.Time{}
	}
	now := time.Now()
	for len(c.order) > 0 && !now.Before(c.doubts[c.order[0]]) {
		delete(c.doubts, c.order[0])
		c.order = c.order[1:]
	}
	if _, ok := c.doubts[k]; !ok {
		c.order = append(c.order, k)
	}
	c.doubts[k] = now.Add(d)
}
