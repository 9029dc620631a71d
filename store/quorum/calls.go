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
	mu    sync.Mutex
	under map[driver.ID]*queues

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

// queues are what is under way about one claim.
type queues struct {
	nodes  []queue
	n      int           // how many slots and Acquires there are: without any, it is forgotten
	asking bool          // an Acquire is under way
	asked  chan struct{} // closed when it is over; nil: nobody waits for that
}

// A queue is the calls about one claim that a node has not answered.
type queue struct {
	first, last *slot
	n           int
	releases    int // how many of them are releases
}

// longestQueue is how many calls about one claim a node may owe an answer before it is asked for it no more: two
// acquires, each with the release after it. A waiter asks again and again; a node that hangs
// must not gather all that.
const longestQueue = 4

// A slot is one call's place in a queue.
type slot struct {
	calls   *calls // nil: it is in no queue, for the call is not to be made
	call    call
	acquire bool
	err     error         // why the call is not to be made
	ready   chan struct{} // closed when the call may be made; nil: at once
	entered bool
	gone    bool // it was left before it could be entered
	next    *slot
}

// ask waits until no other Acquire of the claim is under way: they would raise each other's fence.
func (c *calls) ask(ctx context.Context, id driver.ID, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		q := c.queues(id, n)
		if !q.asking {
			q.asking = true
			q.n++
			return nil
		}
		if q.asked == nil {
			q.asked = make(chan struct{})
		}
		asked := q.asked
		c.mu.Unlock()
		var err error
		select {
		case <-asked:
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// asked lets the next Acquire of the claim go.
func (c *calls) asked(id driver.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.under[id]
	q.asking = false
	if q.asked != nil {
		close(q.asked)
		q.asked = nil
	}
	c.drop(id, q)
}

// acquires takes a slot for an Acquire on every one of n nodes, but for those where it would not count.
func (c *calls) acquires(id driver.ID, n int) []slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]slot, n)
	q := c.queues(id, n)
	for i := range out {
		c.enqueue(q, &out[i], call{id, i}, true)
	}
	c.tidy(id, q)
	return out
}

// releases takes a slot for a release on every one of n nodes, but for those that an attempt has not asked.
func (c *calls) releases(id driver.ID, n int, of *attempt) []slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]slot, n)
	q := c.queues(id, n)
	for i := range out {
		if of != nil && of.line[i].err != nil {
			out[i].err = of.line[i].err
			continue
		}
		c.enqueue(q, &out[i], call{id, i}, false)
	}
	c.tidy(id, q)
	return out
}

// slot takes a slot for an Acquire on one of n nodes.
func (c *calls) slot(k call, n int) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &slot{}
	q := c.queues(k.ID, n)
	c.enqueue(q, s, k, true)
	c.tidy(k.ID, q)
	return s
}

// What follows is called with the lock held.

// queues returns those of a claim.
func (c *calls) queues(id driver.ID, n int) *queues {
	q := c.under[id]
	if q == nil {
		if c.under == nil {
			c.under = map[driver.ID]*queues{}
		}
		q = &queues{nodes: make([]queue, n)}
		c.under[id] = q
	}
	return q
}

// drop ends one of those that need the queues.
func (c *calls) drop(id driver.ID, q *queues) {
	q.n--
	c.tidy(id, q)
}

// tidy forgets queues that nobody needs.
func (c *calls) tidy(id driver.ID, q *queues) {
	if q.n == 0 {
		delete(c.under, id)
	}
}

// enqueue makes s the last of its queue, unless the call is not to be made.
func (c *calls) enqueue(all *queues, s *slot, k call, acquire bool) {
	q := &all.nodes[k.node]
	s.call, s.acquire = k, acquire
	switch {
	case acquire && q.n >= longestQueue:
		s.err = errBusy
		return
	case acquire && c.doubtful(k):
		s.err = errDoubt
		return
	}
	s.calls = c
	if q.first == nil {
		q.first = s
	} else {
		s.ready = make(chan struct{})
		q.last.next = s
	}
	q.last = s
	q.n++
	all.n++
	if !acquire {
		q.releases++
	}
}

// advance takes the first slot out of its queue, and those after it that were left, and lets the next call go.
func (c *calls) advance(all *queues, node int) {
	q := &all.nodes[node]
	for {
		s := q.first
		if !s.acquire {
			q.releases--
		}
		q.n--
		q.first = s.next
		c.drop(s.call.ID, all)
		if q.first == nil {
			q.last = nil
			return
		}
		if !q.first.gone {
			close(q.first.ready)
			return
		}
	}
}

// doubtful reports whether a release may still arrive.
func (c *calls) doubtful(k call) bool {
	return len(c.doubts) > 0 && time.Now().Before(c.doubts[k])
}

// What was called with the lock held ends here.

// enter waits until the call may be made. If it returns an error, it must not be made.
func (s *slot) enter(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if s.ready != nil {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return errBusy
		}
	}
	s.entered = true
	if s.acquire && s.ready != nil { // the release before it may not have been answered
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		if s.calls.doubtful(s.call) {
			return errDoubt
		}
	}
	return nil
}

// leave lets the next call go, also if this one was not made: then when all before it are over.
func (s *slot) leave() {
	if s.calls == nil {
		return
	}
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	all := s.calls.under[s.call.ID]
	if s.entered || all.nodes[s.call.node].first == s {
		s.calls.advance(all, s.call.node)
		return
	}
	s.gone = true
}

// releasing reports whether a claim is being released on a node.
func (c *calls) releasing(id driver.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.under[id]; q != nil {
		for i := range q.nodes {
			if q.nodes[i].releases > 0 {
				return true
			}
		}
	}
	return false
}

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
