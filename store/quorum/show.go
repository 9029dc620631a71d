package quorum

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// Show returns the claims on a key that a majority of nodes may hold. A node that does not answer
// counts as if it held the claim.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return s.collect(ctx, "show", s.within, func(ctx context.Context, node driver.Store) ([]driver.Claim, error) {
		return driver.Show(ctx, node, key)
	})
}

// List yields the claims of all keys with a prefix, as [Store.Show] does, in order of the keys. It
// collects the answers of all nodes before it yields the first claim.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		all, err := s.collect(ctx, "list", s.adminLimit(), func(ctx context.Context, node driver.Store) (cs []driver.Claim, _ error) {
			for c, err := range driver.List(ctx, node, prefix) {
				if err != nil {
					return nil, err
				}
				cs = append(cs, c)
			}
			return cs, nil
		})
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.Claim{}, err)
		}
	}
}

// Break ends the claims on a key on all nodes, parts of claims included. It returns the claims that
// a majority may have held. A node that was topped up may have a higher fence than the granted one.
// If upTo is not 0, its part may stay until it expires: a part is no claim.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return s.collect(ctx, "break", s.adminLimit(), func(ctx context.Context, node driver.Store) ([]driver.Claim, error) {
		return driver.Break(ctx, node, key, upTo, reason)
	})
}

// collect calls f for all nodes and merges the claims. It waits for every node within the limit,
// because every answer matters.
func (s *Store) collect(
	ctx context.Context, op string, limit time.Duration, f func(context.Context, driver.Store) ([]driver.Claim, error),
) ([]driver.Claim, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	votes := begin(ctx, s, limit, nil, func(ctx context.Context, i int) ([]driver.Claim, error) {
		return f(ctx, s.nodes[i])
	}).all(ctx)
	var answers [][]driver.Claim
	down := 0
	for _, v := range votes {
		switch {
		case errors.Is(v.err, errors.ErrUnsupported):
			return nil, v.err
		case errors.Is(v.err, driver.ErrUnavailable):
			down++
		case v.err == nil:
			answers = append(answers, v.value)
		}
	}
	switch {
	case len(answers) >= s.majority():
	case down == len(votes):
		return nil, s.failed(ctx, op, describe(s, votes), driver.ErrUnavailable)
	default:
		return nil, s.failed(ctx, op, describe(s, votes), errNoMajority)
	}
	var out []driver.Claim
	for _, c := range s.merge(answers) {
		if c.votes+len(votes)-len(answers) >= s.majority() {
			out = append(out, c.Claim)
		}
	}
	return out, nil
}

// A sighting is a claim that several nodes returned.
type sighting struct {
	driver.Claim
	votes  int
	fences []uint64
	lefts  []time.Duration
	helds  []time.Duration
	values []driver.Claim // as each node returned it
}

// merge combines the claims of several nodes, in order of the keys, the oldest claim of a key
// first. It leaves out queue entries, which are not of this store.
func (s *Store) merge(answers [][]driver.Claim) []*sighting {
	type claimID struct{ key, owner string }
	seen := map[claimID]*sighting{}
	var out []*sighting
	for _, claims := range answers {
		for _, c := range claims {
			if c.Waiting {
				continue
			}
			id := claimID{c.Key, c.Owner}
			one := seen[id]
			if one == nil {
				one = &sighting{Claim: c}
				seen[id] = one
				out = append(out, one)
			}
			one.votes++
			one.helds = append(one.helds, c.Held)
			one.fences, one.lefts = append(one.fences, c.Fence), append(one.lefts, c.Left)
			one.values = append(one.values, c)
		}
	}
	for _, one := range out {
		// A node that was topped up may have a higher fence than the granted one. The claim ends
		// when no majority has it any more.
		slices.Sort(one.fences)
		one.Fence = one.fences[min(s.majority(), one.votes)-1]
		if !s.features.Fence {
			one.Fence = 0
		}
		// The claim began when a majority had it: one node whose clock was set forward does not
		// count.
		one.Left, one.Held = s.agreed(one.lefts), s.agreed(one.helds)
		one.Value = current(one.values)
	}
	slices.SortStableFunc(out, func(a, b *sighting) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(b.Held, a.Held))
	})
	return out
}

// agreed returns the longest duration that a majority of nodes reaches, or the shortest one if
// there is no majority.
func (s *Store) agreed(durations []time.Duration) time.Duration {
	slices.SortFunc(durations, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return durations[min(s.majority(), len(durations))-1]
}

// current returns the value that most nodes have: a successful renewal may not have reached all of
// them. If two values have as many nodes, current returns the one that was renewed last, which has
// the longest time left.
func current(claims []driver.Claim) []byte {
	votes := map[string]int{}
	for _, c := range claims {
		votes[string(c.Value)]++
	}
	best := slices.MaxFunc(claims, func(a, b driver.Claim) int {
		return cmp.Or(cmp.Compare(votes[string(a.Value)], votes[string(b.Value)]), cmp.Compare(a.Left, b.Left))
	})
	return best.Value
}
