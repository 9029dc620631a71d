package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// calls keeps the calls about one claim in order on each node. A caller continues when a majority
// has answered. Its next call about the same claim must not overtake the earlier one at a slow
// node. A release that overtakes its acquire releases nothing. An acquire that overtakes the
// release of an earlier attempt is undone by that release, although it was counted.
type calls struct {
	mu     sync.Mutex
	active map[driver.ID]*queues

	// A release without an answer may arrive at any later time, and undo a grant of the node to the
	// same owner. Until that can be ruled out, the node gets no Acquire of that owner, and its
	// renewals do not count.
	doubts map[call]time.Time
	order  []call // the keys of doubts, in the order in which they end
}

// A call identifies the calls to one node about one claim.
type call struct {
	driver.ID
	node int
}

// queues are the calls about one claim that are under way.
type queues struct {
	nodes     []queue
	n         int           // how many slots and Acquires there are; at 0 the queues are removed
	acquiring bool          // an Acquire is under way
	acquired  chan struct{} // closed when the Acquire ends; nil: no other Acquire waits
}

// A queue is the calls about one claim that a node has not answered.
type queue struct {
	first, last *slot
	n           int
	releases    int // how many of them are releases
}

// longestQueue is how many calls about one claim may wait for an answer of a node: two acquires,
// each with its release. A node with more gets no further Acquire of the claim. A waiter tries
// again and again, and a node that hangs must not collect all these calls.
const longestQueue = 4

// A slot is the position of one call in a queue.
type slot struct {
	calls   *calls // nil: the slot is in no queue, because the call must not be made
	call    call
	acquire bool
	err     error         // why the call must not be made
	ready   chan struct{} // closed when the call may be made; nil: at once
	then    task          // makes the call; zero: the caller of wait does
	entered bool
	gone    bool // leave was called before enter succeeded
	next    *slot
}

// beginAcquire waits until no other Acquire of the claim is under way: two would raise each other's
// fence.
func (c *calls) beginAcquire(ctx context.Context, id driver.ID, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		q := c.queues(id, n)
		if !q.acquiring {
			q.acquiring = true
			q.n++
			return nil
		}
		if q.acquired == nil {
			q.acquired = make(chan struct{})
		}
		acquired := q.acquired
		c.mu.Unlock()
		var err error
		select {
		case <-acquired:
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// endAcquire lets the next Acquire of the claim begin.
func (c *calls) endAcquire(id driver.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.active[id]
	q.acquiring = false
	if q.acquired != nil {
		close(q.acquired)
		q.acquired = nil
	}
	c.drop(id, q)
}

// acquires takes a slot for an Acquire on each of n nodes, except where the Acquire must not be
// made.
func (c *calls) acquires(id driver.ID, n int) []slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]slot, n)
	q := c.queues(id, n)
	for i := range out {
		c.enqueue(q, &out[i], call{id, i}, true)
	}
	c.prune(id, q)
	return out
}

// releases takes a slot for a release on each of n nodes, except those that the attempt did not
// call.
func (c *calls) releases(id driver.ID, n int, of *attempt) []slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]slot, n)
	q := c.queues(id, n)
	for i := range out {
		if of != nil && of.slots[i].err != nil {
			out[i].err = of.slots[i].err
			continue
		}
		c.enqueue(q, &out[i], call{id, i}, false)
	}
	c.prune(id, q)
	return out
}

// slot takes a slot for an Acquire on one of n nodes.
func (c *calls) slot(k call, n int) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &slot{}
	q := c.queues(k.ID, n)
	c.enqueue(q, s, k, true)
	c.prune(k.ID, q)
	return s
}

// The functions below, up to doubtful, are called with the lock held.

// queues returns the queues of a claim, and creates them if there are none.
func (c *calls) queues(id driver.ID, n int) *queues {
	q := c.active[id]
	if q == nil {
		if c.active == nil {
			c.active = map[driver.ID]*queues{}
		}
		q = &queues{nodes: make([]queue, n)}
		c.active[id] = q
	}
	return q
}

// drop records that a slot or an Acquire no longer needs the queues.
func (c *calls) drop(id driver.ID, q *queues) {
	q.n--
	c.prune(id, q)
}

// prune removes queues that no slot and no Acquire needs.
func (c *calls) prune(id driver.ID, q *queues) {
	if q.n == 0 {
		delete(c.active, id)
	}
}

// enqueue adds s to the end of its queue, unless the call must not be made.
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

// advance removes the first slot from its queue, and the slots after it that are gone, and lets the
// next call begin. It returns the task of that call.
func (c *calls) advance(all *queues, node int) (next task) {
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
			return task{}
		}
		if !q.first.gone {
			close(q.first.ready)
			return q.first.then
		}
	}
}

// doubtful reports whether a release may still arrive.
func (c *calls) doubtful(k call) bool {
	return len(c.doubts) > 0 && time.Now().Before(c.doubts[k])
}

// queue keeps the task that makes the call until the calls before it have ended. It returns false,
// and does nothing, if they have.
func (s *slot) queue(t task) bool {
	if !s.waits() {
		return false
	}
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	if !s.waits() {
		return false
	}
	s.then = t
	return true
}

// waits reports whether a call before this one has not ended.
func (s *slot) waits() bool {
	if s.ready == nil {
		return false
	}
	select {
	case <-s.ready:
		return false
	default:
		return true
	}
}

// wait waits until the calls before this one have ended, or ctx.
func (s *slot) wait(ctx context.Context) {
	if s.ready == nil {
		return
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
	}
}

// enter is called before the call is made. If enter returns an error, the call must not be made:
// the calls before it have not ended in time.
func (s *slot) enter(ctx context.Context) error {
	switch {
	case s.err != nil:
		return s.err
	case s.ready != nil && (s.waits() || ctx.Err() != nil):
		return errBusy
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

// leave lets the next call begin, and returns its task, which the caller of leave has to do. If
// this call was not made, the next one begins when all calls before this one have ended.
func (s *slot) leave() (next task) {
	if s.calls == nil {
		return task{}
	}
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	all := s.calls.active[s.call.ID]
	if s.entered || all.nodes[s.call.node].first == s {
		return s.calls.advance(all, s.call.node)
	}
	s.gone = true
	return task{}
}

// releasing reports whether a claim is being released on a node.
func (c *calls) releasing(id driver.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.active[id]; q != nil {
		for i := range q.nodes {
			if q.nodes[i].releases > 0 {
				return true
			}
		}
	}
	return false
}

// mayRelease calls f for each of n nodes that may get a release of a claim later: the release is
// under way, or it was not answered.
func (c *calls) mayRelease(id driver.ID, n int, f func(k call)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.active[id]
	if q == nil && len(c.doubts) == 0 {
		return
	}
	for i := range n {
		if k := (call{id, i}); q != nil && q.nodes[i].releases > 0 || c.doubtful(k) {
			f(k)
		}
	}
}

// suspect records that a release was not answered, and removes doubts that have ended.
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
