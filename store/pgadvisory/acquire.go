package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/sqlrow"
)

// Acquire acquires the lock if it is free. The weight is 1 or [driver.Whole]: a lock is shared or
// exclusive.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := r.Validate(s.Features()); err != nil {
		return driver.Result{}, err
	}
	if r.Weight != 1 && r.Weight != driver.Whole {
		return driver.Result{}, fmt.Errorf("%w: an advisory lock is shared (weight 1) or exclusive, and cannot have the weight %d", driver.ErrInvalid, r.Weight)
	}
	if err := ctx.Err(); err != nil {
		return driver.Result{}, err
	}
	a := &attempt{Request: r, number: s.number(r.Key), called: s.clock.Now()}
	for {
		s.mu.Lock()
		step, err := s.step(a)
		s.mu.Unlock()
		switch {
		case err != nil:
			return driver.Result{}, err
		case step.wait != nil:
			select {
			case <-step.wait:
			case <-ctx.Done():
				return driver.Result{}, ctx.Err()
			}
		case step.dial:
			if err := s.dial(ctx); err != nil && (a.failed || ctx.Err() != nil || !s.linked()) {
				return driver.Result{}, err
			} else if err != nil {
				a.failed = true // use an existing connection
			}
		case step.refused:
			return s.refuse(ctx, a), nil
		case step.claim != nil:
			res, answered, err := s.await(ctx, a, step)
			if answered || err != nil {
				return res, err
			}
		default:
			return step.res, nil
		}
	}
}

// An attempt is a request in progress.
type attempt struct {
	driver.Request
	number int64
	called time.Duration
	failed bool // a connection could not be made
}

// A step is the next action for an attempt. One of its fields is set.
type step struct {
	res     driver.Result   // the answer, if nothing else is set
	wait    <-chan struct{} // check again after this
	dial    bool            // another connection is needed
	refused bool
	claim   *claim // send a statement about this claim
	verb    verb
	link    *link
	was     time.Duration // the TTL that the claim had; 0: it is new
	op      *operation
}

// step decides the next action. s.mu is held.
func (s *Store) step(a *attempt) (step, error) {
	if s.closed {
		return step{}, errClosed
	}
	if c := s.claims[a.ID]; c != nil {
		return s.stepOwn(a, c), nil
	}
	for c := range s.byKey[a.number] {
		if !c.exclusive() && a.Weight != driver.Whole && !c.doubted {
			continue
		}
		switch c.state {
		case requested, releasing:
			return step{wait: c.busy.done}, nil
		case held, ready:
			return step{refused: true}, nil
		}
	}
	return s.stepNew(a), nil
}

// stepOwn decides for an owner that has a claim or waits for one.
func (s *Store) stepOwn(a *attempt, c *claim) step {
	switch {
	case c.busy != nil:
		return step{wait: c.busy.done}
	case c.state == waiting && c.weight == a.Weight && c.ttl == a.TTL:
		return step{refused: true}
	case c.state == waiting:
		return step{wait: s.withdraw(c)}
	case c.state == ready && a.Weight > c.weight, c.state == held && s.clock.Now() >= c.ends:
		return step{wait: s.release(c, nil).done}
	case c.state == ready && c.weight == a.Weight && c.ttl == a.TTL &&
		a.called-c.since < queueGrace:
		// The server starts to count after c.since, and counts for queueGrace longer than the TTL.
		s.hold(c, a.TTL)
		c.holder, c.task = a.Holder, a.Task
		return step{res: s.granted(c)}
	}
	if c.state == ready {
		c.holder, c.task = a.Holder, a.Task
	}
	st := step{claim: c, verb: beat, link: c.link, was: c.ttl, op: c.begin()}
	if a.Weight < c.weight {
		st.verb = lower
	}
	c.ttl = a.TTL
	return st
}

// stepNew decides for an owner without a claim.
func (s *Store) stepNew(a *attempt) step {
	l, wait := s.pick(a.number, a.TTL)
	if wait != nil {
		return step{wait: wait}
	}
	v := tryExclusive
	if a.Weight != driver.Whole {
		v = tryShared
	}
	switch {
	case l == nil:
		s.dialing++
		return step{dial: true}
	case l.holds[a.number] > 0:
		v = joinShared
	}
	c := &claim{ID: a.ID, number: a.number, weight: a.Weight, holder: a.Holder, task: a.Task,
		ttl: a.TTL}
	s.add(c)
	s.assign(c, l)
	return step{claim: c, verb: v, link: l, op: c.begin()}
}

// await sends the statement of a step and waits for the answer. If ctx ends first, the answer is
// still recorded.
func (s *Store) await(
	ctx context.Context, a *attempt, st step,
) (res driver.Result, answered bool, err error) {
	c := st.claim
	then := func(k *pgwire.Call) { s.taken(c, k) }
	if st.was > 0 {
		then = func(k *pgwire.Call) { s.takenAgain(c, st, a.Weight, k) }
	}
	if err := st.link.do(st.verb, c, a.TTL, then); err != nil {
		s.mu.Lock()
		if st.was == 0 {
			s.remove(c)
		} // otherwise linkEnded reports the loss
		c.finish(false, sqlrow.Unavailable(err)) // it was not sent
		s.mu.Unlock()
	}
	if err := st.link.Await(ctx, st.op.done); err != nil {
		return driver.Result{}, false, err
	}
	switch {
	case st.op.err != nil:
		return driver.Result{}, false, st.op.err
	case !st.op.ok:
		return s.refuse(ctx, a), true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted(c), true, nil
}

// granted returns the result for the owner of a held claim.
func (s *Store) granted(c *claim) driver.Result {
	used := max(s.used(c.number), c.weight) // at least its own, if it was released in the meantime
	return driver.Result{Granted: true, Fence: c.fence, Used: used}
}

// taken records the answer to a new claim.
func (s *Store) taken(c *claim, k *pgwire.Call) {
	l := c.link
	value, ok, err := l.answer(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case lost(err):
		s.remove(c)
		c.finish(false, err)
	case err != nil:
		// The server may have granted the lock before the statement failed.
		l.failed(c, c.ttl)
		if s.doubt(c, sqlrow.Unavailable(err)) {
			s.release(c, sqlrow.Unavailable(err))
		}
	case !ok:
		s.remove(c)
		l.forget(c)
		c.finish(false, nil)
	default:
		c.fence = uint64(value)
		s.hold(c, c.ttl)
		c.finish(true, nil)
	}
}

// takenAgain records the answer to an owner that had the claim.
func (s *Store) takenAgain(c *claim, st step, weight int64, k *pgwire.Call) {
	l := c.link
	value, ok, err := l.answer(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case lost(err):
		c.finish(false, err)
	case err == nil && st.verb == lower && (!ok || value != 1):
		err = errors.New("pgadvisory: the server does not know a lock that was held")
		s.breakLink(l)
		c.finish(false, err)
	case err != nil:
		c.ttl = max(c.ttl, st.was)
		l.failed(c, c.ttl)
		if st.verb == lower {
			s.breakLink(l) // it may have either of the two locks
		}
		c.finish(false, sqlrow.Unavailable(err))
	default:
		c.weight = min(c.weight, weight)
		s.hold(c, c.ttl)
		c.finish(true, nil)
	}
}

// lost reports whether a statement has no answer because its connection ended.
func lost(err error) bool {
	var l *lostError
	return errors.As(err, &l)
}
