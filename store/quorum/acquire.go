package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/distlock/distlock/driver"
)

// headStart is how far a proposed fence is ahead of the client's clock. Nodes also use their own
// clocks. If the proposal is above all of them, all nodes give the same answer in one round.
const headStart = uint64(time.Second / time.Microsecond)

// patience is how long an attempt with split votes waits for nodes that were late before, and four
// times as long as for the first majority. Such a node may be down, and must not keep several
// owners waiting with parts of the claim: none of them can have it until the others release theirs.
const patience = time.Millisecond

// Acquire acquires the claim on all nodes. See the package comment for its results.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := r.Validate(s.features); err != nil {
		return driver.Result{}, err
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return driver.Result{}, err
	}
	defer leave()
	if err := s.calls.beginAcquire(ctx, r.ID, len(s.nodes)); err != nil {
		return driver.Result{}, err
	}
	defer s.calls.endAcquire(r.ID)

	began := time.Now()
	r, held := s.claims.request(r, len(s.nodes))
	a := s.try(ctx, r, held)
	s.pace.Store(int64(time.Since(began)))
	if !s.won(a.ballot) {
		return s.lose(ctx, a)
	}
	s.claims.granted(r, a.fence)
	return driver.Result{Granted: true, Fence: a.fence, Used: used(a.votes)}, nil
}

// An attempt is one Acquire: its request and the votes of the nodes.
type attempt struct {
	ballot
	r     driver.Request
	held  bool // the claim is already held, as far as this process knows
	votes []vote[driver.Result]
	slots []slot // of the first round: a slot with an error was not called
	last  *round[driver.Result]
}

// try makes one or two rounds: one if a majority stored the fence at once, and otherwise another to
// write the fence back.
func (s *Store) try(ctx context.Context, r driver.Request, held bool) *attempt {
	floor := r.Floor
	if s.features.Fence && !held {
		r.Floor = max(r.Floor, uint64(time.Now().UnixMicro())+headStart)
	}
	a := &attempt{r: r, held: held}
	a.slots = s.calls.acquires(r.ID, len(s.nodes))
	a.last = begin(ctx, s, s.limit(r.TTL), a.slots, func(ctx context.Context, i int) (driver.Result, error) {
		res, err := s.acquire(ctx, i, r)
		if errors.Is(err, driver.ErrInvalid) && r.Floor > floor {
			// The clocks of this client and the node are more than an hour apart. The node's own
			// clock is good enough: a fence that a majority stored rises for any clocks.
			r := r
			r.Floor = floor
			res, err = s.acquire(ctx, i, r)
		}
		s.answered(ctx, i, r.TTL)
		return res, err
	})
	began, hurried := time.Now(), false
	a.votes = a.last.until(ctx, func(votes []vote[driver.Result]) bool {
		a.ballot = s.count(votes)
		if !held && !hurried && a.refused > 0 && a.refused+a.granted >= s.majority() && s.missOnlyLate(votes) {
			hurried = true
			a.last.hurry(patience + 4*time.Since(began))
		}
		return s.settled(a.ballot)
	})
	a.ballot = s.count(a.votes) // if nobody has answered, until has not counted
	if a.counted >= s.majority() && !s.won(a.ballot) {
		s.writeBack(ctx, a)
	}
	return a
}

// answered notes whether a node has answered an Acquire within the limit. Other calls have other
// limits, and some never reach the node. The limit of a short TTL is no measure for others.
func (s *Store) answered(ctx context.Context, node int, ttl time.Duration) {
	late := ctx.Err() != nil
	if late && s.limit(ttl) < s.within {
		return
	}
	if s.late[node].Load() != late { // most calls do not write: the nodes share a cache line
		s.late[node].Store(late)
	}
}

// missOnlyLate reports whether votes are missing, and all of them are of nodes that were late
// before.
func (s *Store) missOnlyLate(votes []vote[driver.Result]) (missing bool) {
	for i := range votes {
		if votes[i].given {
			continue
		}
		if !s.late[i].Load() {
			return false
		}
		missing = true
	}
	return missing
}

// acquire acquires the claim on one node. A node that was slow or was topped up may already have
// the claim with a higher fence than the granted one. The other nodes need not follow: that node
// has stored the requested fence, and acquire returns the Floor.
func (s *Store) acquire(ctx context.Context, node int, r driver.Request) (driver.Result, error) {
	res, err := s.nodes[node].Acquire(ctx, r)
	if err == nil && res.Granted && s.claims.sameFence(r.ID, node, res.Fence) {
		res.Fence = min(res.Fence, r.Floor)
	}
	return res, err
}

// writeBack calls the nodes that granted the claim with a lower fence again, also those that have
// not answered yet, until a majority has stored the fence.
func (s *Store) writeBack(ctx context.Context, a *attempt) {
	first, fence := a.last, a.fence
	slots := s.calls.acquires(a.r.ID, len(s.nodes))
	a.last = begin(ctx, s, s.limit(a.r.TTL), slots, func(ctx context.Context, i int) (driver.Result, error) {
		was := first.answer(i)
		if was.err != nil || !was.value.Granted || was.value.Fence >= fence {
			return was.value, was.err
		}
		r := a.r
		r.Floor = fence
		if res, err := s.acquire(ctx, i, r); err == nil {
			return res, nil
		}
		return was.value, nil // the earlier grant still counts
	})
	a.last.collect(ctx, a.votes, func(votes []vote[driver.Result]) bool {
		a.ballot = s.count(votes)
		return s.won(a.ballot)
	})
}

// lose releases the claim where it may have been granted, and returns why no majority granted it.
//
// Refused: a majority refused it; or a majority answered, some of them refused, and no majority can
// hold it any more. Unavailable or invalid: no node refused it, and no majority can hold it. All
// else is unknown.
//
// The release continues in the background if the result does not depend on it. A part of a claim on
// a minority is no claim, and ends with its TTL. A claim that is held stays held, unless a majority
// answers that it is not.
func (s *Store) lose(ctx context.Context, a *attempt) (driver.Result, error) {
	no := func(err error) (driver.Result, error) {
		return driver.Result{}, s.failed(ctx, "acquire", describe(s, a.votes), err)
	}
	lost := a.refused >= s.majority()
	if a.held && !lost {
		switch {
		case a.granted > 0 || a.unknown >= s.majority():
			return no(errNoMajority)
		case a.invalid >= s.majority():
			return no(driver.ErrInvalid)
		}
		return no(driver.ErrUnavailable)
	}
	undo := s.release(ctx, a.r.ID, a)
	contested := a.refused > 0 && a.refused+a.granted >= s.majority()
	left := a.granted + a.unknown // the nodes that may still have the claim
	if contested && left >= s.majority() {
		undo.until(ctx, func(votes []vote[struct{}]) bool {
			left = 0
			for i, v := range votes {
				if v.err != nil && !errors.Is(v.err, driver.ErrNotHeld) && possible(a.votes[i]) {
					left++
				}
			}
			return left < s.majority()
		})
	}
	switch {
	case lost, contested && left < s.majority():
		return s.refusal(a.votes, a.ballot), nil
	case left >= s.majority():
		return no(errNoMajority)
	case a.invalid >= s.majority():
		return no(driver.ErrInvalid)
	default:
		return no(driver.ErrUnavailable)
	}
}

// left reports whether a node may have granted a failed attempt. It waits for the node's last
// answer.
func (a *attempt) left(i int) bool { return possible(a.last.answer(i)) }

// possible reports whether a node may have granted the claim.
func possible(v vote[driver.Result]) bool {
	return v.err == nil && v.value.Granted ||
		v.err != nil && !errors.Is(v.err, driver.ErrUnavailable) && !errors.Is(v.err, driver.ErrInvalid)
}

// used returns the highest sum of weights that a counted node returned.
func used(votes []vote[driver.Result]) int64 {
	var n int64
	for i := range votes {
		if counts(&votes[i]) {
			n = max(n, votes[i].value.Used)
		}
	}
	return n
}
