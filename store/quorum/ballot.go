package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A ballot is the votes on an Acquire, counted.
type ballot struct {
	granted int // nodes that granted
	counted int // those of them that count
	refused int
	invalid int
	down    int // unavailable
	unknown int // nodes that may have granted

	fence  uint64 // the highest of the lowest majority of fences, if a majority is counted
	stored int    // how many nodes have stored that fence or a higher one
}

// count counts votes, and marks those that do not count.
func (s *Store) count(votes []vote[driver.Result]) ballot {
	var b ballot
	oldest := time.Duration(0)
	for i := range votes {
		v := &votes[i]
		switch {
		case v.err == nil:
			age := v.value.Age
			if age == 0 {
				age = 2 * s.longest // not reported: the node is assumed to remember
			}
			oldest = max(oldest, age)
			v.uncounted = age < s.longest
			if !v.value.Granted {
				b.refused++
				continue
			}
			if b.granted++; !v.uncounted {
				b.counted++
			}
			continue
		case errors.Is(v.err, driver.ErrInvalid):
			b.invalid++
		case errors.Is(v.err, driver.ErrUnavailable):
			b.down++
		default:
			b.unknown++
		}
	}
	fresh := oldest < 2*s.longest
	if oldest > 0 {
		s.fresh.Store(fresh)
	}
	if fresh && b.counted < s.majority() && b.granted == len(votes) {
		// In a new deployment no node can have forgotten a claim from before it. If a node restarts
		// now, the others still remember. So all of them must grant.
		for i := range votes {
			votes[i].uncounted = false
		}
		b.counted = b.granted
	}
	if b.counted >= s.majority() {
		b.fence, b.stored = s.fence(votes)
	}
	return b
}

// fence chooses the fence of a claim that a majority has granted.
func (s *Store) fence(votes []vote[driver.Result]) (fence uint64, stored int) {
	var few [5]uint64 // no allocation for up to 5 nodes
	fences := few[:0]
	for i := range votes {
		if counts(&votes[i]) {
			fences = append(fences, votes[i].value.Fence)
		}
	}
	if !s.features.Fence {
		return 0, len(fences)
	}
	slices.Sort(fences)
	fence = fences[s.majority()-1]
	at, _ := slices.BinarySearch(fences, fence)
	return fence, len(fences) - at
}

// counts reports whether a node granted, and counts.
func counts(v *vote[driver.Result]) bool { return v.err == nil && v.value.Granted && !v.uncounted }

// won reports whether the claim is granted.
func (s *Store) won(b ballot) bool { return b.stored >= s.majority() }

// settled reports whether the missing votes cannot change the result. If a majority is down,
// settled returns false: the caller waits for all nodes, so that the error shows the problem of
// every node.
func (s *Store) settled(b ballot) bool {
	return max(b.counted, b.refused, b.invalid) >= s.majority()
}

// refusal combines the results of the nodes that refused.
func (s *Store) refusal(votes []vote[driver.Result], b ballot) driver.Result {
	var res driver.Result
	var retries []time.Duration
	var blockers [][]driver.Claim
	for _, v := range votes {
		if v.err != nil || v.value.Granted {
			continue
		}
		res.Used = max(res.Used, v.value.Used)
		retries = append(retries, v.value.Retry)
		blockers = append(blockers, []driver.Claim{v.value.Blocker})
	}
	// Another attempt may succeed when as many nodes have capacity as a majority still needs.
	slices.Sort(retries)
	res.Retry = retries[min(max(s.majority()-b.granted, 1), len(retries))-1]
	if retries[0] == 0 {
		res.Retry = 0 // a node does not report it
	}
	for _, c := range s.merge(blockers) {
		if c.votes > 0 && (res.Blocker.Key == "" || c.Left > res.Blocker.Left) {
			res.Blocker = c.Claim
		}
	}
	return res
}
