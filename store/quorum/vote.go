package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

var (
	errNoMajority = errors.New("quorum: no majority of the nodes answered")
	errTooSlow    = fmt.Errorf("quorum: the nodes were too slow for the TTL: %w", driver.ErrUnavailable)
	errLate       = errors.New("quorum: no answer in time")
)

// A vote is one node's answer.
type vote[T any] struct {
	value T
	err   error
	young bool // the node may have forgotten a claim: its grant does not count
}

// counts reports whether a node granted, and may be counted.
func (v *vote[T]) counts() bool {
	r, ok := any(v.value).(driver.Result)
	return ok && v.err == nil && r.Granted && !v.young
}

// A round is one question to all nodes.
type round[T any] struct {
	answers chan answer[T]
	done    []chan struct{} // by node: closed when its call is over
}

type answer[T any] struct {
	node  int
	value T
	err   error
}

// begin asks all nodes at once, each within the limit. A call that nobody waits for any more goes on to its end: a
// request that was sent is not taken back by not listening.
func begin[T any](ctx context.Context, s *Store, limit time.Duration, f func(ctx context.Context, i int) (T, error)) *round[T] {
	r := &round[T]{answers: make(chan answer[T], len(s.nodes)), done: make([]chan struct{}, len(s.nodes))}
	for i := range s.nodes {
		r.done[i] = make(chan struct{})
	}
	for i := range s.nodes {
		s.wg.Go(func() {
			defer close(r.done[i])
			call, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errLate)
			defer cancel()
			value, err := f(call, i)
			r.answers <- answer[T]{i, value, err}
		})
	}
	return r
}

// votes collects the answers until there are enough, or all, or ctx is over. Nodes that have not
// answered by then did not vote: their error is errLate.
func (r *round[T]) votes(ctx context.Context, enough func([]vote[T]) bool) []vote[T] {
	votes := make([]vote[T], len(r.done))
	for i := range votes {
		votes[i].err = errLate
	}
	for range r.done {
		select {
		case a := <-r.answers:
			votes[a.node].value, votes[a.node].err = a.value, a.err
		case <-ctx.Done():
			return votes
		}
		if enough(votes) {
			return votes
		}
	}
	return votes
}

// all waits for every node.
func all[T any]([]vote[T]) bool { return false }

// over waits until a node's call is over, or ctx is.
func over(ctx context.Context, done []chan struct{}, node int) {
	if done == nil {
		return
	}
	select {
	case <-done[node]:
	case <-ctx.Done():
	}
}

// A VoteError says how the nodes voted when no majority came about.
type VoteError struct {
	Op    string
	Votes []Vote
	Err   error // driver.ErrNotHeld, driver.ErrUnavailable, or neither: the outcome is unknown
}

// A Vote is what one node said.
type Vote struct {
	Node    string // number and kind
	Granted bool
	Young   bool  // granted, but not counted: see LongestTTL
	Err     error // nil if it granted or refused
}

func (v Vote) String() string {
	switch {
	case errors.Is(v.Err, errLate):
		return v.Node + ": no answer in time"
	case v.Err != nil:
		return v.Node + ": " + v.Err.Error()
	case v.Granted && v.Young:
		return v.Node + ": granted, not counted: it has just begun to remember"
	case v.Granted:
		return v.Node + ": yes"
	default:
		return v.Node + ": no"
	}
}

func (e *VoteError) Error() string {
	parts := make([]string, len(e.Votes))
	for i, v := range e.Votes {
		parts[i] = v.String()
	}
	return fmt.Sprintf("%v: %s: %s", e.Err, e.Op, strings.Join(parts, "; "))
}

// Unwrap gives what came of it.
func (e *VoteError) Unwrap() error { return e.Err }

// tell makes votes readable.
func tell[T any](s *Store, votes []vote[T]) []Vote {
	out := make([]Vote, len(votes))
	for i, v := range votes {
		out[i] = Vote{Node: s.names[i], Young: v.young, Err: v.err, Granted: v.err == nil}
		if r, ok := any(v.value).(driver.Result); ok {
			out[i].Granted = v.err == nil && r.Granted
		}
	}
	return out
}
