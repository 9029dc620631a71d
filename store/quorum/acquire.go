package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// Acquire asks all nodes for the claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := r.Validate(s.features); err != nil {
		return driver.Result{}, err
	}
	began := time.Now()
	r.Floor = s.propose(r)
	round := begin(ctx, s, limit(r.TTL), func(ctx context.Context, i int) (driver.Result, error) {
		return s.nodes[i].Acquire(ctx, r)
	})
	votes := round.votes(ctx, s.decided)
	asked := round.done
	s.discount(votes)
	fence, stored := highest(votes)
	if granted(votes) >= s.majority() && stored < s.majority() {
		asked = s.writeBack(ctx, r, votes, asked, fence)
		_, stored = highest(votes)
	}
	switch {
	case stored < s.majority():
		return s.refuse(ctx, r.ID, votes, asked)
	case time.Since(began) >= r.TTL-r.TTL/10:
		// The nodes' claims have begun to end: there is no trust left that anybody could use.
		_, err := s.refuse(ctx, r.ID, votes, asked)
		return driver.Result{}, errors.Join(errTooSlow, err)
	}
	s.remember(r, fence, asked)
	return driver.Result{Granted: true, Fence: fence, Used: used(votes)}, nil
}

// decided reports whether votes that are still missing can be done without: a majority that has stored one
// fence, or so many refusals that there can be no majority. While a node is young, all
// are heard: it takes all of them to tell a new deployment from a node that forgot.
func (s *Store) decided(votes []vote[driver.Result]) bool {
	for _, v := range votes {
		if s.young(v) {
			return false
		}
	}
	_, stored := highest(votes)
	return stored >= s.majority() || refusals(votes) > len(s.nodes)-s.majority()
}

// propose returns a fence that all nodes are likely to grant as it is.
func (s *Store) propose(r driver.Request) uint64 {
	if !s.features.Fence {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[r.ID]; h != nil {
		return max(h.fence, r.Floor) // asked again: the same grant, unless a higher fence is wanted
	}
	return max(s.seen[r.Key]+driver.Span, uint64(time.Now().UnixMicro())+headStart, r.Floor)
}

// discount takes away the votes of nodes that may have forgotten a claim, unless all of them are new.
func (s *Store) discount(votes []vote[driver.Result]) {
	young := 0
	for _, v := range votes {
		if s.young(v) {
			young++
		}
	}
	for i, v := range votes {
		votes[i].young = young < len(votes) && s.young(v)
	}
}

func (s *Store) young(v vote[driver.Result]) bool {
	return v.err == nil && v.value.Age > 0 && v.value.Age < s.longest
}

// writeBack raises the fence of all that granted to the highest, and counts what they say
// to that instead. It returns when the nodes' calls, old and new, are over.
func (s *Store) writeBack(ctx context.Context, r driver.Request, votes []vote[driver.Result], asked []chan struct{}, fence uint64) []chan struct{} {
	r.Floor = fence
	first := slices.Clone(votes)
	round := begin(ctx, s, limit(r.TTL), func(ctx context.Context, i int) (driver.Result, error) {
		if !first[i].counts() || first[i].value.Fence == fence {
			over(ctx, asked, i)
			return first[i].value, first[i].err
		}
		return s.nodes[i].Acquire(ctx, r)
	})
	second := round.votes(ctx, func(votes []vote[driver.Result]) bool {
		for i := range votes {
			votes[i].young = first[i].young
		}
		f, stored := highest(votes)
		return f == fence && stored >= s.majority()
	})
	for i, v := range second {
		if first[i].counts() && first[i].value.Fence != fence {
			votes[i].value, votes[i].err = v.value, v.err
		}
	}
	return round.done
}

// refuse releases what was granted, and says why the claim was not: refused, if the nodes that refused
// it leave no majority; unavailable, if nothing of it can be left anywhere; unknown otherwise.
func (s *Store) refuse(ctx context.Context, id driver.ID, votes []vote[driver.Result], asked []chan struct{}) (driver.Result, error) {
	undo := begin(ctx, s, nodeLimit, func(ctx context.Context, i int) (struct{}, error) {
		over(ctx, asked, i) // a release that overtakes its acquire releases nothing
		v := votes[i]
		if v.err == nil && !v.value.Granted || errors.Is(v.err, driver.ErrUnavailable) || errors.Is(v.err, driver.ErrInvalid) {
			return struct{}{}, nil // there is nothing
		}
		if err := s.nodes[i].Release(ctx, id); err != nil && !errors.Is(err, driver.ErrNotHeld) {
			return struct{}{}, err
		}
		return struct{}{}, nil
	})
	var res driver.Result
	for _, v := range votes {
		if v.err == nil && !v.value.Granted {
			res.Used = max(res.Used, v.value.Used)
			if res.Retry == 0 || v.value.Retry > 0 && v.value.Retry < res.Retry {
				res.Retry = v.value.Retry
			}
			if res.Blocker.Left <= v.value.Blocker.Left {
				res.Blocker = v.value.Blocker
			}
		}
	}
	refused := refusals(votes)
	if refused > len(s.nodes)-s.majority() {
		// Definite, and what is being undone is in nobody's way but our own next ask's,
		// which is a matter of a round trip.
		return res, nil
	}
	left := false
	for _, v := range undo.votes(context.WithoutCancel(ctx), all) {
		left = left || v.err != nil
	}
	switch {
	case !left && refused > 0 && refused+granted(votes) == len(votes):
		return res, nil // the votes were split: all nodes are well, and others hold parts of it
	case left:
		return driver.Result{}, &VoteError{Op: "acquire", Votes: tell(s, votes), Err: errNoMajority}
	default:
		return driver.Result{}, &VoteError{Op: "acquire", Votes: tell(s, votes), Err: driver.ErrUnavailable}
	}
}

// refusals counts the nodes that refused.
func refusals(votes []vote[driver.Result]) int {
	n := 0
	for _, v := range votes {
		if v.err == nil && !v.value.Granted {
			n++
		}
	}
	return n
}

// granted counts the nodes that granted, and may be counted.
func granted(votes []vote[driver.Result]) int {
	n := 0
	for _, v := range votes {
		if v.counts() {
			n++
		}
	}
	return n
}

// highest returns the highest fence that was granted, and how many nodes have stored it.
func highest(votes []vote[driver.Result]) (fence uint64, stored int) {
	for _, v := range votes {
		if v.counts() {
			fence = max(fence, v.value.Fence)
		}
	}
	for _, v := range votes {
		if v.counts() && v.value.Fence == fence {
			stored++
		}
	}
	return fence, stored
}

func used(votes []vote[driver.Result]) int64 {
	var n int64
	for _, v := range votes {
		if v.counts() {
			n = max(n, v.value.Used)
		}
	}
	return n
}
