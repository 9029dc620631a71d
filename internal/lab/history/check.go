package history

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sort"
	"time"
)

// Check checks a history of any length in O(n log n).
func Check(h *History, rules Rules) *Verdict {
	v := &Verdict{}
	x, err := newIndex(h, rules, v)
	if err != nil {
		v.add(Record, "", nil, "not a history: %v", err)
		return v
	}
	for _, k := range x.keys {
		k.outcomes(v)
		if !rules.NoFences {
			k.fences(v)
			k.registers(v)
		}
		k.overlaps(v)
		k.gaps(v)
		x.losses(k, rules, v)
		x.waits(k, rules, v)
	}
	x.minimums(rules.Min, v)
	return v
}

// outcomes checks I10, and counts.
func (k *keyLog) outcomes(v *Verdict) {
	for _, op := range k.ops {
		if op.Outcome == Untyped {
			v.add(I10, k.key, []*Op{op}, "an answer was none of granted, refused, failed and unknown")
		}
		if op.Outcome == Unknown && (op.Kind == Acquire || op.Kind == Release) {
			v.Unknown++
		}
	}
	for _, h := range k.holds {
		if h.op.Outcome == Granted {
			v.Grants++
		}
		if h.op.Wait.Seq != 0 {
			v.Waits++
		}
	}
}

// overlaps checks I3: a sweep over the spans with the sum of their weights.
func (k *keyLog) overlaps(v *Verdict) {
	s := &sweep{weight: map[*hold]int64{}}
	for _, h := range k.grants {
		if !h.live() {
			continue
		}
		s.leave(h.start)
		s.enter(h)
		if s.used > s.limit(h) {
			ops := make([]*Op, 0, len(s.weight))
			for other := range s.weight {
				ops = append(ops, other.op)
			}
			slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Hold, b.Hold) })
			v.add(I3, k.key, ops, "%d holders with a weight of %d at once, limit %d", len(ops), s.used, s.limit(h))
		}
	}
}

// gaps computes the time between rivals.
func (k *keyLog) gaps(v *Verdict) {
	rival := k.rivals((*hold).live)
	for i, h := range k.grants {
		next := rival[i]
		if next == nil || !h.live() || len(h.lower) > 0 { // a lowered hold may live together with the next
			continue
		}
		ended := time.Duration(math.MaxInt64)
		if h.until != 0 {
			ended = h.until
		}
		for _, op := range []*Op{h.release, h.lost, h.gone} {
			if op != nil {
				ended = min(ended, op.Call.At)
			}
		}
		if overlap := ended - next.op.Return.At; v.Overlap == 0 || overlap > v.Overlap {
			v.Overlap = overlap
		}
	}
}

// A sweep is the state of overlaps at one position.
type sweep struct {
	weight map[*hold]int64 // of the holds in their span
	used   int64
	next   changes
}

// A change is the end of a span, or a lowered weight in it.
type change struct {
	at   int64
	hold *hold
	to   int64 // the new weight; 0: the end
}

func (s *sweep) enter(h *hold) {
	s.weight[h] = h.op.Weight
	s.used += h.op.Weight
	heap.Push(&s.next, change{at: h.stop, hold: h})
	for _, op := range h.lower {
		heap.Push(&s.next, change{at: pos(op.Call), hold: h, to: op.Weight})
	}
}

// leave applies the changes before a position.
func (s *sweep) leave(at int64) {
	for len(s.next) > 0 && s.next[0].at <= at {
		c := heap.Pop(&s.next).(change)
		was, ok := s.weight[c.hold]
		switch {
		case !ok:
		case c.to == 0:
			s.used -= was
			delete(s.weight, c.hold)
		case c.to < was:
			s.used -= was - c.to
			s.weight[c.hold] = c.to
		}
	}
}

// limit returns the highest limit of the holds in their span. The rule is the limit of the last
// grant, and the order of returns does not show which one that was.
func (s *sweep) limit(h *hold) int64 {
	limit := h.op.Limit
	if s.used > limit {
		for other := range s.weight {
			limit = max(limit, other.op.Limit)
		}
	}
	return limit
}

type changes []change

func (c changes) Len() int           { return len(c) }
func (c changes) Less(i, j int) bool { return c[i].at < c[j].at }
func (c changes) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *changes) Push(x any)        { *c = append(*c, x.(change)) }
func (c *changes) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// losses checks I4: the losses that were not reported in time.
func (x *index) losses(k *keyLog, rules Rules, v *Verdict) {
	rival := k.rivals(func(*hold) bool { return true })
	for i, h := range k.grants {
		if h.until == 0 {
			continue
		}
		// A lease that was lost when its holder first checked is recorded with a trust that ended
		// before the acquire: the holder never trusted it, and cannot be notified before it has the
		// lease.
		unseen, ended := h.until <= h.op.Call.At, h.until
		if unseen {
			ended = h.op.Return.At
		}
		paused := x.awake(h.op.Client, ended) > ended
		due := x.due(h.op.Client, ended, rules.Tolerance)
		stopped := time.Duration(math.MaxInt64) // when the holder stopped, or was stopped
		for _, op := range []*Op{h.release, h.lost, h.gone} {
			if op != nil {
				stopped = min(stopped, op.Call.At)
			}
		}
		next := rival[i]
		switch {
		case stopped > due && x.end > due:
			v.add(I4, k.key, []*Op{h.op, h.lost, h.release}, "trust ended at %v, and the loss was not reported to the holder by %v", ended, due)
		case next != nil && next.op.Return.At < stopped && next.op.Return.At >= h.until && !paused && !unseen:
			v.add(I4, k.key, []*Op{h.op, next.op, h.lost, h.release}, "trust ended at %v, and a rival was granted before the loss was reported to the holder", h.until)
		}
	}
}

// rivals returns for each grant the next counted grant that conflicts with it, or nil.
func (k *keyLog) rivals(counts func(*hold) bool) []*hold {
	out := make([]*hold, len(k.grants))
	var any, whole *hold
	for i, h := range slices.Backward(k.grants) {
		out[i] = whole
		if h.op.whole() {
			out[i] = any
		}
		if counts(h) {
			any = h
			if h.op.whole() {
				whole = h
			}
		}
	}
	return out
}

// awake returns t, or the end of the pause that a client is in at t.
func (x *index) awake(client string, t time.Duration) time.Duration {
	p := x.pauses[client]
	i := sort.Search(len(p), func(i int) bool { return p[i].from > t })
	if i > 0 {
		return max(t, p[i-1].to)
	}
	return t
}

// due returns when a client has run for d since t. The time of its pauses does not count.
func (x *index) due(client string, t, d time.Duration) time.Duration {
	t = x.awake(client, t)
	all := x.pauses[client]
	for _, p := range all[sort.Search(len(all), func(i int) bool { return all[i].from > t }):] {
		if p.from-t >= d {
			break
		}
		d -= p.from - t
		t = p.to
	}
	return t + d
}

// minimums checks M38: whether anything was tested.
func (x *index) minimums(m Minimums, v *Verdict) {
	v.FaultsOverHold = x.faultsOverHold()
	short := func(got, want int, what string) {
		if got < want {
			v.add(Minimum, "", nil, "%d %s, and %d are needed for a verdict", got, what, want)
		}
	}
	short(v.Grants, max(1, m.Grants), "grants")
	short(v.Waits, max(1, m.ContendedWaits), "contended waits")
	short(v.FaultsOverHold, m.FaultsOverHold, "faults over a hold")
}

func (x *index) faultsOverHold() (n int) {
	// For each client its spans by start, and the latest end of them up to each. The empty client
	// is all of them.
	type spans struct{ starts, ends []time.Duration }
	by := map[string]*spans{"": {}}
	var all []*hold
	for _, k := range x.keys {
		all = append(all, k.grants...)
	}
	slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(a.start, b.start) })
	for _, h := range all {
		if !h.live() {
			continue
		}
		for _, client := range []string{"", h.op.Client} {
			s := by[client]
			if s == nil {
				s = &spans{}
				by[client] = s
			}
			end := x.time(h.stop)
			if len(s.ends) > 0 {
				end = max(end, s.ends[len(s.ends)-1])
			}
			s.starts, s.ends = append(s.starts, h.op.Return.At), append(s.ends, end)
		}
	}
	for _, f := range x.faults {
		if s := by[f.Client]; s != nil {
			i := sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > f.Return.At })
			if i > 0 && s.ends[i-1] >= f.Call.At {
				n++
			}
		}
	}
	return n
}

// time returns the time of the event at or after a position.
func (x *index) time(at int64) time.Duration {
	if i := at / 2; i < int64(len(x.at)) {
		return x.at[i]
	}
	return x.end
}
