package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/distlock/distlock/driver"
)

// headStart is how far a proposed fence lies ahead of the client's clock. Nodes count by
// their clocks too: a proposal above all of them is answered alike by all, in one round.
const headStart = uint64(time.Second / time.Microsecond)

// Acquire asks all nodes for the claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := r.Validate(s.features); err != nil {
		return driver.Result{}, err
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return driver.Result{}, err
	}
	defer leave()
	if err := s.calls.ask(ctx, r.ID, len(s.nodes)); err != nil {
		return driver.Result{}, err
	}
	defer s.calls.asked(r.ID)

	began := time.Now()
	r, held := s.claims.ask(r, len(s.nodes))
	a := s.ask(ctx, r, held)
	s.pace.Store(int64(time.Since(began)))
	if !s.won(a.ballot) {
		return s.lose(ctx, a)
	}
	s.claims.granted(r, a.fence)
	return driver.Result{Granted: true, Fence: a.fence, Used: used(a.votes)}, nil
}

// An attempt is one Acquire: what was asked, and what the nodes said.
type attempt struct {
	ballot
	r     driver.Request
	held  bool // the claim is held already, as far as this process knows
	votes []vote[driver.Result]
	line  []slot // of the first round: where it was not asked at all
	last  *round[driver.Result]
}

// ask makes one or two rounds: one if a majority stored the fence at once, and
// otherwise another to write it back.
func (s *Store) ask(ctx context.Context, r driver.Request, held bool) *attempt {
	floor := r.Floor
	if s.features.Fence && !held {
		r.Floor = max(r.Floor, uint64(time.Now().UnixMicro())+headStart)
	}
	a := &attempt{r: r, held: held}
	line := s.calls.acquires(r.ID, len(s.nodes))
	a.line = line
	a.last = begin(ctx, s, s.limit(r.TTL), func(ctx context.Context, i int) (driver.Result, error) {
		err := line[i].enter(ctx)
		defer line[i].leave()
		if err != nil {
			return driver.Result{}, err
		}
		res, err := s.acquire(ctx, i, r)
		if errors.Is(err, driver.ErrInvalid) && r.Floor > floor {
			// This client's clock and that node's are more than an hour apart. The node's own clock
			// is good enough: a fence that a majority stored rises whatever the clocks say.
			r := r
			r.Floor = floor
			res, err = s.acquire(ctx, i, r)
		}
		return res, err
	})
	a.votes = a.last.until(ctx, func(votes []vote[driver.Result]) bool {
		a.ballot = s.count(votes)
		return s.settled(a.ballot)
	})
	if a.counted >= s.majority() && !s.won(a.ballot) {
		s.writeBack(ctx, a)
	}
	return a
}

// acquire asks one node. If it has the claim since before with a fence above the one that was granted, as a node may
// that was slow or was topped up, that is no reason to raise the others': it has stored what is asked for.
func (s *Store) acquire(ctx context.Context, node int, r driver.Request) (driver.Result, error) {
	res, err := s.nodes[node].Acquire(ctx, r)
	if err == nil && res.Granted && s.claims.told(r.ID, node, res.Fence) {
		res.Fence = min(res.Fence, r.Floor)
	}
	return res, err
}

// writeBack asks those that granted the claim with a lower fence again, also those that have yet to answer,
// until a majority has stored the fence.
func (s *Store) writeBack(ctx context.Context, a *attempt) {
	first, fence := a.last, a.fence
	line := s.calls.acquires(a.r.ID, len(s.nodes))
	a.last = begin(ctx, s, s.limit(a.r.TTL), func(ctx context.Context, i int) (driver.Result, error) {
		err := line[i].enter(ctx)
		defer line[i].leave()
		if err != nil {
			return driver.Result{}, err
		}
		was := first.answer(i)
		if was.err != nil || !was.value.Granted || was.value.Fence >= fence {
			return was.value, was.err
		}
		r := a.r
		r.Floor = fence
		if res, err := s.acquire(ctx, i, r); err == nil {
			return res, nil
		}
		return was.value, nil // what it granted before, it granted
	})
	a.last.collect(ctx, a.votes, func(votes []vote[driver.Result]) bool {
		a.ballot = s.count(votes)
		return s.won(a.ballot)
	})
}

// lose releases what was granted, and says why the claim was not.
//
// Refused: a majority refused it; or a majority answered, some of them refused, and no majority can hold it any more.
// Unavailable or invalid: nobody refused it, and no majority can hold it. Anything else is unknown.
//
// The release goes on in the background, if the answer does not depend on it. A part of a claim that is left on a minority
// is no claim, and ends with its TTL. A claim that is held stays held, unless a majority says that it is not.
func (s *Store) lose(ctx context.Context, a *attempt) (driver.Result, error) {
	no := func(err error) (driver.Result, error) {
		return driver.Result{}, s.failed(ctx, "acquire", tell(s, a.votes), err)
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
	left := a.granted + a.unknown // where something may be left
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

// left reports whether an attempt that failed may have left something on a node, once it was asked for the last time.
func (a *attempt) left(i int) bool { return possible(a.last.answer(i)) }

// possible reports whether a node may have granted the claim.
func possible(v vote[driver.Result]) bool {
	return v.err == nil && v.value.Granted ||
		v.err != nil && !errors.Is(v.err, driver.ErrUnavailable) && !errors.Is(v.err, driver.ErrInvalid)
}

// used is the highest sum of weights that was told.
func used(votes []vote[driver.Result]) int64 {
	var n int64
	for i := range votes {
		if counts(&votes[i]) {
			n = max(n, votes[i].value.Used)
		}
	}
	return n
}
