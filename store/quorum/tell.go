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

// Show returns the claims on a key that a majority of nodes may hold: those that a majority shows,
// where nodes that do not answer count as if they did.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return s.look(ctx, "show", s.within, func(ctx context.Context, node driver.Store) ([]driver.Claim, error) {
		return driver.Show(ctx, node, key)
	})
}

// List yields the claims of all keys with a prefix, as Show does, in order of their names. It gathers
// what all nodes tell before it yields the first.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		all, err := s.look(ctx, "list", s.lookLimit(), func(ctx context.Context, node driver.Store) (cs []driver.Claim, _ error) {
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

// Break ends the claims on a key on all nodes, parts of claims included. It returns those that a
// majority may have held.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return s.look(ctx, "break", s.lookLimit(), func(ctx context.Context, node driver.Store) ([]driver.Claim, error) {
		return driver.Break(ctx, node, key, upTo, reason)
	})
}

// look asks all nodes about claims. It waits for every node within its limit, for all of them have something to tell.
func (s *Store) look(ctx context.Context, op string, limit time.Duration, f func(context.Context, driver.Store) ([]driver.Claim, error)) ([]driver.Claim, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	votes := begin(ctx, s, limit, func(ctx context.Context, i int) ([]driver.Claim, error) {
		return f(ctx, s.nodes[i])
	}).all(ctx)
	var told [][]driver.Claim
	down := 0
	for _, v := range votes {
		switch {
		case errors.Is(v.err, errors.ErrUnsupported):
			return nil, v.err
		case errors.Is(v.err, driver.ErrUnavailable):
			down++
		case v.err == nil:
			told = append(told, v.value)
		}
	}
	switch {
	case len(told) >= s.majority():
	case down == len(votes):
		return nil, s.failed(ctx, op, tell(s, votes), driver.ErrUnavailable)
	default:
		return nil, s.failed(ctx, op, tell(s, votes), errNoMajority)
	}
	var out []driver.Claim
	for _, c := range s.merge(told) {
		if c.votes+len(votes)-len(told) >= s.majority() {
			out = append(out, c.Claim)
		}
	}
	return out, nil
}

// A sighting is a claim as several nodes tell it.
type sighting struct {
	driver.Claim
	votes  int
	fences []uint64
	lefts  []time.Duration
	helds  []time.Duration
	values []driver.Claim // as each node tells it
}

// merge makes one of what several nodes tell: by key, the oldest first. Places in line, which nothing
// that was asked for here has taken, are left out.
func (s *Store) merge(told [][]driver.Claim) []*sighting {
	type who struct{ key, owner string }
	seen := map[who]*sighting{}
	var out []*sighting
	for _, claims := range told {
		for _, c := range claims {
			if c.Waiting {
				continue
			}
			at := who{c.Key, c.Owner}
			one := seen[at]
			if one == nil {
				one = &sighting{Claim: c}
				seen[at] = one
				out = append(out, one)
			}
			one.votes++
			one.helds = append(one.helds, c.Held)
			one.fences, one.lefts = append(one.fences, c.Fence), append(one.lefts, c.Left)
			one.values = append(one.values, c)
		}
	}
	for _, one := range out {
		// The fence is the one that was granted: a node that was topped up may have a higher
		// one. The claim ends when it leaves a majority.
		slices.Sort(one.fences)
		one.Fence = one.fences[min(s.majority(), one.votes)-1]
		if !s.features.Fence {
			one.Fence = 0
		}
		// It began when a majority had it: one node whose clock was set forward does not count.
		one.Left, one.Held = s.agreed(one.lefts), s.agreed(one.helds)
		one.Value = current(one.values)
	}
	slices.SortStableFunc(out, func(a, b *sighting) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(b.Held, a.Held))
	})
	return out
}

// agreed returns the longest time that a majority of nodes tells at least, or the shortest that is
// told.
func (s *Store) agreed(told []time.Duration) time.Duration {
	slices.SortFunc(told, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return told[min(s.majority(), len(told))-1]
}

// current returns the value that most nodes tell: a renewal that has succeeded may not have reached
// all of them. Of two that as many tell, it is the one that was renewed last, which is left for
// longer.
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
