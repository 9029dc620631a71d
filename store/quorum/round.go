package quorum

import (
	"context"
	"sync"
	"time"
)

// A round is one call to all nodes. The goroutine that collects the answers is woken once, when
// there are enough: most rounds end after one wait, for any number of nodes.
type round[T any] struct {
	s      *Store
	slots  []slot // by node; nil: the calls have no order
	f      func(ctx context.Context, i int) (T, error)
	ctx    context.Context // of the calls: ends with the limit, or when all calls have ended
	cancel context.CancelFunc

	mu       sync.Mutex
	votes    []vote[T]       // by node, as they arrive
	answered []chan struct{} // by node: closed when the node has answered, if answer waits for it
	left     int             // calls that are under way
	seen     []vote[T]       // the votes for collect
	enough   func([]vote[T]) bool
	settled  chan struct{} // closed when there are enough votes; nil: collect does not wait
}

// A vote is one node's answer.
type vote[T any] struct {
	value     T
	err       error // errLate until the node has answered
	uncounted bool  // the node may have forgotten a claim: its grant does not count
	given     bool
}

// begin calls all nodes at once, each with the limit. With slots, the call to a node begins when
// the calls before it have ended, and takes no goroutine until then. If the caller stops waiting,
// the call continues to its end, because a request that was sent cannot be taken back. An answer
// after the limit does not count.
func begin[T any](ctx context.Context, s *Store, limit time.Duration, slots []slot, f func(ctx context.Context, i int) (T, error)) *round[T] {
	n := len(s.nodes)
	votes := make([]vote[T], 2*n) // one allocation for votes and seen
	r := &round[T]{s: s, slots: slots, f: f, votes: votes[:n:n], seen: votes[n:], left: n}
	r.ctx, r.cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errLate)
	s.wg.Add(n)
	for i := range n {
		if t := (task{r, i}); slots == nil || !slots[i].queue(t) {
			s.workers.do(t)
		}
	}
	return r
}

// call calls one node, and returns the next task for it.
func (r *round[T]) call(i int) (next task) {
	defer r.s.wg.Done()
	v := vote[T]{given: true}
	if r.slots != nil {
		v.err = r.slots[i].enter(r.ctx)
	}
	if v.err == nil {
		v.value, v.err = r.f(r.ctx, i)
	}
	if r.slots != nil {
		next = r.slots[i].leave()
	}
	if v.err == nil && r.ctx.Err() != nil {
		v.err = errLate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[i] = v
	if r.answered != nil && r.answered[i] != nil {
		close(r.answered[i])
	}
	if r.left--; r.left == 0 {
		r.cancel()
	}
	if r.settled == nil {
		return next
	}
	r.seen[i] = v
	if r.enough(r.seen) || r.left == 0 {
		close(r.settled)
		r.settled = nil
	}
	return next
}

// answer waits until the call to a node has ended, and returns its vote.
func (r *round[T]) answer(i int) vote[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.votes[i].given {
		if r.answered == nil {
			r.answered = make([]chan struct{}, len(r.votes))
		}
		if r.answered[i] == nil {
			r.answered[i] = make(chan struct{})
		}
		answered := r.answered[i]
		r.mu.Unlock()
		<-answered
		r.mu.Lock()
	}
	return r.votes[i]
}

// until collects votes until there are enough, or all, or until ctx or the limit ends. The vote of
// a node that has not answered by then is errLate. until is called once.
func (r *round[T]) until(ctx context.Context, enough func([]vote[T]) bool) []vote[T] {
	votes := r.seen
	for i := range votes {
		votes[i].err = errLate
	}
	r.collect(ctx, votes, enough)
	return votes
}

// hurry ends collect after d, if it still waits then.
func (r *round[T]) hurry(d time.Duration) {
	time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.settled != nil {
			close(r.settled)
			r.settled = nil
		}
	})
}

// all waits for every node.
func (r *round[T]) all(ctx context.Context) []vote[T] {
	return r.until(ctx, func([]vote[T]) bool { return false })
}

// collect writes the answers to votes. Until collect returns, votes and the variables that enough
// writes to belong to the round.
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
	defer r.mu.Unlock()
	r.settled = nil
	for i := range votes {
		if !votes[i].given && r.slots != nil && r.slots[i].waits() {
			votes[i].err = errBusy
		}
	}
}
