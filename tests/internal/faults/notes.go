package faults

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
)

// The checks in this file need more than grants and releases.

// Reported counts the faults that lasted beyond the trust of leases whose holder checked them all
// the time. It also counts those of them in which no check said that a lease is held after the end
// of its trust.
func (r *Run) Reported() (events, inTime int, errs []error) {
	type look struct{ at, until time.Duration } // the last check that said that the lease is held, and the end of its trust
	last := map[string]look{}                   // by client and fence
	for _, n := range r.Notes {
		var fence uint64
		var at, until int64
		if n.What == "last look" {
			if _, err := fmt.Sscan(n.Value, &fence, &at, &until); err != nil {
				errs = append(errs, err)
			}
			last[fmt.Sprint(n.Who, " ", fence)] = look{time.Duration(at), time.Duration(until)}
		}
	}
	var holds []*history.Op
	for i := range r.History.Ops {
		if op := &r.History.Ops[i]; op.Kind == history.Acquire && op.Outcome == history.Granted {
			holds = append(holds, op)
		}
	}
	for i := range r.History.Ops {
		f := &r.History.Ops[i]
		if f.Kind != history.Fault || f.Client == "" || f.What == string(torture.Kill) {
			continue
		}
		late, losses := 0, 0
		for _, op := range holds {
			seen, lost := last[fmt.Sprint(op.Client, " ", op.Fence)]
			// The client held the lease when the fault came, and its trust ended before the fault
			// did.
			if op.Client != f.Client || !lost || op.Return.At > f.Call.At || seen.until < f.Call.At || seen.until > f.Return.At {
				continue
			}
			losses++
			if seen.at > seen.until {
				late++
				errs = append(errs, fmt.Errorf("%s: %v reported that it was held %v after the end of its trust at %v", f.What, op, seen.at-seen.until, seen.until))
			}
		}
		if losses > 0 {
			events++
		}
		if losses > 0 && late == 0 {
			inTime++
		}
	}
	return events, inTime, errs
}

// Order returns an error for each waiter that was granted before another that had been in the queue
// first. Queue entries of processes that met a fault may have ended, so they are left out.
func (r *Run) Order() (pairs int, errs []error) {
	byKey := map[string][]*history.Op{}
	var troubles []*history.Op
	for i := range r.History.Ops {
		op := &r.History.Ops[i]
		switch {
		case op.Kind == history.Fault:
			troubles = append(troubles, op)
		case op.Kind == history.Acquire && op.Outcome == history.Granted && op.Wait.Seq != 0:
			byKey[op.Key] = append(byKey[op.Key], op)
		}
	}
	for i := range r.stalls {
		troubles = append(troubles, &r.stalls[i])
	}
	calm := func(op *history.Op) bool {
		return !slices.ContainsFunc(troubles, func(f *history.Op) bool {
			return (f.Client == "" || f.Client == op.Client) && f.Call.At < op.Return.At && f.Return.At+r.TTL > op.Call.At
		})
	}
	for _, ops := range byKey {
		slices.SortFunc(ops, func(a, b *history.Op) int { return cmp.Compare(a.Wait.Seq, b.Wait.Seq) })
		for i, a := range ops {
			if !calm(a) {
				continue
			}
			for _, b := range ops[i+1:] {
				if b.Client == a.Client || b.Call.Seq < a.Wait.Seq || b.Call.At > a.Return.At {
					continue
				}
				pairs++
				if b.Return.Seq < a.Return.Seq {
					errs = append(errs, fmt.Errorf("%v was granted before %v, which was in the queue when it came", b, a))
				}
			}
		}
	}
	return pairs, errs
}

// Results checks that all callers got the same result, and that nothing was done again after a
// caller had got one.
func (r *Run) Results() (keys, done int, errs []error) {
	first := map[string]*torture.Note{}
	notes := slices.Clone(r.Notes)
	slices.SortStableFunc(notes, func(a, b torture.Note) int { return cmp.Compare(a.At, b.At) })
	for i := range notes {
		n := &notes[i]
		was := first[n.Key]
		switch {
		case n.What == "did":
			done++
			if was != nil {
				errs = append(errs, fmt.Errorf("%s was done by %s at %v, after a result was returned at %v", n.Key, n.Value, n.At, was.At))
			}
		case n.What == "result" && was == nil:
			first[n.Key] = n
		case n.What == "result" && was.Value != n.Value:
			errs = append(errs, fmt.Errorf("%s: one caller got %q, and another %q", n.Key, was.Value, n.Value))
		}
	}
	return len(first), done, errs
}

// Terms checks that leaders led one after the other, with rising terms.
func (r *Run) Terms() (terms int, errs []error) {
	type term struct {
		torture.Note
		number uint64
		last   time.Duration // the last check that said that it leads
	}
	byKey := map[string][]*term{}
	for _, n := range r.Notes {
		var t term
		var last int64
		switch n.What {
		case "failed":
			errs = append(errs, fmt.Errorf("%s: %s: %s", n.Who, n.Key, n.Value))
		case "leads":
			if _, err := fmt.Sscan(n.Value, &t.number); err != nil {
				errs = append(errs, err)
			}
			t.Note, t.last = n, n.At
			byKey[n.Key] = append(byKey[n.Key], &t)
			terms++
		case "looks", "led": // a killed leader has no end of its term
			if _, err := fmt.Sscan(n.Value, &t.number, &last); err != nil {
				errs = append(errs, err)
			}
			for _, o := range byKey[n.Key] {
				if o.number == t.number && o.Who == n.Who {
					o.last = max(o.At, time.Duration(last))
				}
			}
		}
	}
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b *term) int { return cmp.Compare(a.At, b.At) })
		for i, b := range all[min(1, len(all)):] {
			a := all[i]
			if b.number <= a.number {
				errs = append(errs, fmt.Errorf("%s: term %d of %s came after term %d of %s", key, b.number, b.Who, a.number, a.Who))
			}
			if a.last > b.At {
				errs = append(errs, fmt.Errorf("%s: %s led until %v, and %s from %v", key, a.Who, a.last, b.Who, b.At))
			}
		}
	}
	return terms, errs
}
