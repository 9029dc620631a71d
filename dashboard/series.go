package dashboard

import "time"

// counts are what happened in some time.
type counts struct {
	Grants, Waits, Refused, Released, Lost, Broken int
	WaitMax                                        time.Duration // the longest wait that ended with a grant
	Calls                                          int           // of the store
	CallSum, CallMax                               time.Duration // of these
}

// A series has the counts of the last n steps of time.
type series struct {
	born    time.Time
	step    time.Duration
	buckets []counts
	last    int // the step of the newest bucket, counted from born
}

func newSeries(born time.Time, step time.Duration, n int) series {
	return series{born: born, step: step, buckets: make([]counts, n)}
}

// at returns the bucket of a time, which is the newest one.
func (s *series) at(now time.Time) *counts {
	s.advance(now)
	return &s.buckets[s.last%len(s.buckets)]
}

// advance empties the buckets of the time since the newest one.
func (s *series) advance(now time.Time) {
	step := int(now.Sub(s.born) / s.step)
	for i := max(s.last+1, step-len(s.buckets)+1); i <= step; i++ {
		s.buckets[i%len(s.buckets)] = counts{}
	}
	s.last = max(s.last, step)
}

// points returns the buckets, the oldest first, and the time of the first one. The last bucket is
// the current one, which is not complete: see seconds.
func (s *series) points(now time.Time) (from time.Time, out []counts) {
	s.advance(now)
	first := max(0, s.last-len(s.buckets)+1)
	for i := first; i <= s.last; i++ {
		out = append(out, s.buckets[i%len(s.buckets)])
	}
	return s.born.Add(time.Duration(first) * s.step), out
}

// seconds returns how much time of the current bucket has passed, for rates.
func (s *series) seconds(now time.Time) float64 {
	return max(now.Sub(s.born.Add(time.Duration(s.last)*s.step)).Seconds(), 1)
}

// sum returns the counts of the newest n buckets, and how much time they are of.
func (s *series) sum(now time.Time, n int) (all counts, span time.Duration) {
	s.advance(now)
	for i := max(0, s.last-n+1); i <= s.last; i++ {
		c := s.buckets[i%len(s.buckets)]
		all.Grants += c.Grants
		all.Waits += c.Waits
		all.Refused += c.Refused
		all.Released += c.Released
		all.Lost += c.Lost
		all.Broken += c.Broken
		all.WaitMax = max(all.WaitMax, c.WaitMax)
		all.Calls += c.Calls
		all.CallSum += c.CallSum
		all.CallMax = max(all.CallMax, c.CallMax)
	}
	start := s.born.Add(time.Duration(max(0, s.last-n+1)) * s.step)
	return all, max(now.Sub(start), time.Second)
}
