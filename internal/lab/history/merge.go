package history

import (
	"cmp"
	"slices"
)

// Merge combines several histories that were recorded with the same clock: by recorders in several
// processes of one host. Events are sorted by their times. Events of one history that share a time
// stay in order.
func Merge(parts ...*History) *History {
	out := &History{}
	var from []int // for each operation, its part
	var holds int64
	for part, h := range parts {
		out.End = max(out.End, h.End)
		var most int64
		for _, op := range h.Ops {
			if op.Hold != 0 {
				most = max(most, op.Hold)
				op.Hold += holds
			}
			out.Ops = append(out.Ops, op)
			from = append(from, part)
		}
		holds += most
	}

	type event struct {
		*Stamp
		part int
	}
	var events []event
	for i := range out.Ops {
		for _, s := range []*Stamp{&out.Ops[i].Call, &out.Ops[i].Wait, &out.Ops[i].Return} {
			if s.Seq != 0 {
				events = append(events, event{s, from[i]})
			}
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.part, b.part), cmp.Compare(a.Seq, b.Seq))
	})
	for n, e := range events {
		e.Seq = int64(n + 1)
	}
	slices.SortStableFunc(out.Ops, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Call.At, b.Call.At), cmp.Compare(a.Call.Seq, b.Call.Seq))
	})
	return out
}
