package quorum

import (
	"context"
	"sync"
	"time"
)

// A round is one question to all nodes. Whoever gathers the answers is woken once, when they are enough: most
// rounds are over after one wait, however many nodes there are.
type round[T any] struct {
	s      *Store
	ask    func(ctx context.Context, i int) (T, error)
	ctx    context.Context // of the calls: over when the limit is, or all calls are
	cancel context.CancelFunc

	mu      sync.Mutex
	votes   []vote[T]       // by node, as they have come
	heard   []chan struct{} // by node: closed when it has answered, if somebody waits for that
	left    int             // calls that are under way
	seen    []vote[T]       // what is being gathered
	enough  func([]vote[T]) bool
	settled chan struct{} // closed when it is enough; nil: nobody gathers
}

// A vote is one node's answer.
type vote[T any] struct {
	value T
	err   error // errLate until it has answered
	young bool  // the node may have forgotten a claim: its grant does not count
	given bool
}

// begin asks all nodes at once, each within the limit. A call that nobody waits for any more goes on to its end: a
// request that was sent is not taken back by not listening. An answer after the limit is none.
func begin[T any](ctx context.Context, s *Store, limit time.Duration, f func(ctx context.Context, i int) (T, error)) *round[T] {
	n := len(s.nodes)
	votes := make([]vote[T], 2*n) // room for until, too
	r := &round[T]{s: s, ask: f, votes: votes[:n:n], seen: votes[n:], left: n}
	r.ctx, r.cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errLate)
	s.wg.Add(n)
	for i := range n {
		s.workers.do(task{r, i})
	}
	return r
}

// call asks one node.
func (r *round[T]) call(i int) {
	defer r.s.wg.Done()
	v := vote[T]{given: true}
	v.value, v.err = r.ask(r.ctx, i)
	if v.err == nil && r.ctx.Err() != nil {
		v.err = errLate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[i] = v
	if r.heard != nil && r.heard[i] != nil {
		close(r.heard[i])
	}
	if r.left--; r.left == 0 {
		r.cancel()
	}
	if r.settled == nil {
		return
	}
	r.seen[i] = v
	if r.enough(r.seen) || r.left == 0 {
		close(r.settled)
		r.settled = nil
	}
}

// answer returns what a node answered, once its call is over.
func (r *round[T]) answer(i int) vote[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.votes[i].given {
		if r.heard == nil {
			r.heard = make([]chan struct{}, len(r.votes))
		}
		if r.heard[i] == nil {
			r.heard[i] = make(chan struct{})
		}
		heard := r.heard[i]
		r.mu.Unlock()
		<-heard
		r.mu.Lock()
	}
	return r.votes[i]
}

// until collects votes until there are enough, or all, or ctx or the limit is over. Nodes that have not
// answered by then did not vote. It is called once.
func (r *round[T]) until(ctx context.Context, enough func([]vote[T]) bool) []vote[T] {
	votes := r.seen
	for i := range votes {
		votes[i].err = errLate
	}
	r.collect(ctx, votes, enough)
	return votes
}

// all waits for every node.
func (r *round[T]) all(ctx context.Context) []vote[T] {
	return r.until(ctx, func([]vote[T]) bool { return false })
}

// collect writes the answers over votes. Until it returns, they and what enough writes to belong to the round.
func (r *round[T]) collect(ctx context.Context, votes []vote[T], enough func([]vote[T]) bool) {
	r.mu.Lock()
	for i := range r.votes {
		if r.votes[i].given {
			votes[i] = r.votes[i]
		}
	}
	if r.left < len(votes) && enough(votes) || r.left == 0 {
		r.mu.Unlock()
		return
	}
	settled := make(chan struct{})
	r.seen, r.enough, r.settled = votes, enough, settled
	r.mu.Unlock()
	select {
	case <-settled:
		return
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	r.settled = nil
	r.mu.Unlock()
}
