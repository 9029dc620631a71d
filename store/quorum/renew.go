package quorum

import (
	"bytes"
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
)

// Renew renews a claim on all nodes. It succeeds if a majority renewed the claim. The nodes that do
// not hold it are then topped up.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	out := s.RenewAll(ctx, []driver.Renewal{r})
	return out[0].Behind, out[0].Err
}

// RenewAll renews many claims with one round trip to each node. It returns when a majority has
// decided about each. Nodes are topped up afterwards.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	leave, err := s.enter(ctx)
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer leave()
	var valid []driver.Renewal
	var at []int
	var live []bool             // known to this process at the time of the call
	var risky map[call]struct{} // what a node renews, and may then release
	least := s.longest
	for i, r := range rs {
		known := s.claims.live(r.ID)
		switch out[i].Err = r.Validate(s.features); {
		case out[i].Err != nil:
		case s.calls.releasing(r.ID) && !s.claims.isHeld(r.ID):
			out[i].Err = driver.ErrNotHeld // only some nodes still have it
		default:
			s.calls.mayRelease(r.ID, len(s.nodes), func(k call) {
				if risky == nil {
					risky = map[call]struct{}{}
				}
				risky[k] = struct{}{}
			})
			r.Value = bytes.Clone(r.Value) // a node may still read it after RenewAll has returned
			valid, at, live = append(valid, r), append(at, i), append(live, known)
			least = min(least, r.TTL)
		}
	}
	if len(valid) == 0 {
		return out
	}
	all := begin(ctx, s, s.limit(least), nil, func(ctx context.Context, i int) ([]driver.Renewed, error) {
		renewed := driver.RenewAll(ctx, s.nodes[i], valid)
		for j, r := range valid {
			if _, ok := risky[call{r.ID, i}]; ok && renewed[j].Err == nil {
				renewed[j].Err = errRisky
			}
		}
		return renewed, nil
	})
	votes := all.until(ctx, func(votes []vote[[]driver.Renewed]) bool {
		for j := range valid {
			if c := countRenewed(votes, j); c.good < s.majority() && c.gone < s.majority() {
				return false
			}
		}
		return true
	})
	tops := make([]driver.Request, len(valid))
	for j, r := range valid {
		out[at[j]] = s.renew(ctx, r, votes, j)
		switch {
		case errors.Is(out[at[j]].Err, driver.ErrNotHeld):
		case live[j] && !s.claims.live(r.ID):
			out[at[j]] = driver.Renewed{Err: driver.ErrNotHeld} // it was released meanwhile
		case out[at[j]].Err == nil:
			tops[j] = s.claims.renewed(r)
		}
	}
	for i := range s.nodes {
		s.wg.Go(func() { s.topUp(context.WithoutCancel(ctx), i, all.answer(i), tops) })
	}
	return out
}

// A renewal is the votes on one renewal, counted.
type renewal struct {
	good, gone, down, behind int
	broken                   error // the error of a node that knows why the claim was broken
}

// countRenewed counts the votes on the j-th renewal.
func countRenewed(votes []vote[[]driver.Renewed], j int) (c renewal) {
	for _, v := range votes {
		if v.err != nil {
			continue
		}
		switch one := v.value[j]; {
		case one.Err == nil:
			c.good++
			c.behind = max(c.behind, one.Behind)
		case errors.Is(one.Err, driver.ErrNotHeld):
			c.gone++
			if b := (*driver.BrokenError)(nil); errors.As(one.Err, &b) {
				c.broken = one.Err
			}
		case errors.Is(one.Err, driver.ErrUnavailable):
			c.down++
		}
	}
	return c
}

// renew returns the result of the j-th renewal.
func (s *Store) renew(ctx context.Context, r driver.Renewal, votes []vote[[]driver.Renewed], j int) driver.Renewed {
	c := countRenewed(votes, j)
	if c.good >= s.majority() {
		return driver.Renewed{Behind: c.behind}
	}
	one := make([]vote[driver.Renewed], len(votes))
	for n, v := range votes {
		one[n].err = v.err
		if v.err == nil {
			one[n].value, one[n].err = v.value[j], v.value[j].Err
		}
	}
	fail := func(err error) driver.Renewed {
		return driver.Renewed{Err: s.failed(ctx, "renew", describe(s, one), err)}
	}
	switch {
	case c.gone >= s.majority(): // no majority can hold it any more
		s.release(ctx, r.ID, nil) // the parts on other nodes would block the next claim
		if c.broken != nil {
			return driver.Renewed{Err: c.broken}
		}
		return fail(driver.ErrNotHeld)
	case c.good == 0 && c.gone+c.down == len(votes):
		return fail(driver.ErrUnavailable)
	default:
		return fail(errNoMajority)
	}
}

// toppers is how many claims are topped up at a time on one node.
const toppers = 8

// topUp acquires claims on a node that does not hold them, although a majority has just renewed
// them, so that they no longer depend on a bare majority. The result does not change this round: a
// node counts when it has renewed.
func (s *Store) topUp(ctx context.Context, node int, answer vote[[]driver.Renewed], tops []driver.Request) {
	if answer.err != nil {
		return
	}
	var missing []driver.Request
	for j, one := range answer.value {
		// A late renewal may arrive after a Break: a broken claim must not come back.
		broken := errors.As(one.Err, new(*driver.BrokenError))
		if tops[j].Weight > 0 && errors.Is(one.Err, driver.ErrNotHeld) && !broken {
			missing = append(missing, tops[j])
		}
	}
	for w := range min(toppers, len(missing)) {
		s.wg.Go(func() {
			for j := w; j < len(missing); j += toppers {
				s.top(ctx, node, missing[j])
			}
		})
	}
}

// top tops up one claim, unless it was released meanwhile.
func (s *Store) top(ctx context.Context, node int, r driver.Request) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit(r.TTL), errLate)
	defer cancel()
	slot := s.calls.slot(call{r.ID, node}, len(s.nodes))
	defer func() { s.workers.do(slot.leave()) }()
	slot.wait(ctx)
	// A later release waits for the slot. An earlier release has removed the claim from s.claims.
	if slot.enter(ctx) == nil && s.claims.live(r.ID) {
		_, _ = s.acquire(ctx, node, r)
	}
}
