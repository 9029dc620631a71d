package quorum

import (
	"context"
	"sync/atomic"
	"time"
)

// A round is one question to all nodes.
type round[T any] struct {
	ctx   context.Context // of the calls: over when the limit is, or all calls are
	votes []vote[T]       // by node; written before done is closed
	done  []chan struct{}
	heard chan int // nodes that have answered
}

// A vote is one node's answer.
type vote[T any] struct {
	value T
	err   error // errLate until it has answered
	young bool  // the node may have forgotten a claim: its grant does not count
}

// begin asks all nodes at once, each within the limit. A call that nobody waits for any more goes on to its end: a
// request that was sent is not taken back by not listening. An answer after the limit is none.
func begin[T any](ctx context.Context, s *Store, limit time.Duration, f func(ctx context.Context, i int) (T, error)) *round[T] {
	n := len(s.nodes)
	r := &round[T]{votes: make([]vote[T], n), done: make([]chan struct{}, n), heard: make(chan int, n)}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errLate)
	for i := range n {
		r.done[i] = make(chan struct{})
	}
	var left atomic.Int64
	left.Store(int64(n))
	over := func() {
		if left.Add(-1) == 0 {
			cancel()
		}
	}
	for i := range n {
		s.wg.Go(func() {
			v := vote[T]{}
			v.value, v.err = f(r.ctx, i)
			if v.err == nil && r.ctx.Err() != nil {
				v.err = errLate
			}
			r.votes[i] = v
			close(r.done[i])
			r.heard <- i
			over()
		})
	}
	return r
}

// answer returns what a node answered, once its call is over.
func (r *round[T]) answer(i int) vote[T] {
	<-r.done[i]
	return r.votes[i]
}

// until collects votes until there are enough, or all, or ctx or the limit is over. Nodes that have not
// answered by then did not vote.
func (r *round[T]) until(ctx context.Context, enough func([]vote[T]) bool) []vote[T] {
	votes := make([]vote[T], len(r.votes))
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

// collect writes the answers over votes.
func (r *round[T]) collect(ctx context.Context, votes []vote[T], enough func([]vote[T]) bool) {
	for range r.votes {
		var i int
		select {
		case i = <-r.heard:
		default:
			select {
			case i = <-r.heard:
			case <-ctx.Done():
				return
			case <-r.ctx.Done(): // when all calls are over, too
				select {
				case i = <-r.heard:
				default:
					return
				}
			}
		}
		votes[i] = r.votes[i]
		if enough(votes) {
			return
		}
	}
}
