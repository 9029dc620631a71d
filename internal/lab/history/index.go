package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// A History is a recorded run: operations in the order of their calls, and the time at which
// recording ended.
type History struct {
	Ops []Op
	End time.Duration
}

// never is a position after all events.
const never = math.MaxInt64

// An index is a history sorted by key and hold.
//
// Events and ends of trust are compared by position: an event with number n is at 2n+1, the end of
// trust just before the first event that is not earlier. Trust that ends in the instant of another
// grant has therefore ended before the grant.
type index struct {
	at     []time.Duration // the time of each event, by Seq
	end    time.Duration
	early  bool               // Rules.Early
	keys   []*keyLog          // in order of first use
	faults []*Op              // in order of their beginning
	heals  []time.Duration    // for each fault: when it and all before it had ended
	pauses map[string][]pause // by client, in order, more than Rules.Gap apart
}

// A keyLog contains all operations on one key.
type keyLog struct {
	key    string
	ops    []*Op   // in order of calls
	holds  []*hold // every acquire, whatever its outcome, in order of calls
	grants []*hold // the granted ones in order of their returns
	writes []*Op
}

// A hold is an acquire and the operations that follow it.
type hold struct {
	op      *Op           // the acquire
	until   time.Duration // the end of trust after all renewals; 0: none
	release *Op           // the first release that was called
	ended   *Op           // the first release or renewal whose return shows that the claim had ended
	freeing *Op           // the first release that may have succeeded
	lost    *Op           // Lost
	gone    *Op
	lower   []*Op
	start   int64 // the span, by position
	stop    int64
}

// live reports whether the hold ever had a span.
func (h *hold) live() bool { return h.start < h.stop }

// pos returns the position of an event.
func pos(s Stamp) int64 { return 2*s.Seq + 1 }

// before returns the position of a time: before all events that are not earlier.
func (x *index) before(t time.Duration) int64 {
	if t == 0 {
		return never
	}
	return 2 * int64(sort.Search(len(x.at), func(i int) bool { return i > 0 && x.at[i] >= t }))
}

// newIndex sorts a history. It adds to v the violations that concern one hold alone.
func newIndex(h *History, rules Rules, v *Verdict) (*index, error) {
	x := &index{end: h.End, early: rules.Early, pauses: map[string][]pause{}}
	if err := x.order(h.Ops); err != nil {
		return nil, err
	}
	x.trouble(h.Ops, rules.Gap)
	keys := map[string]*keyLog{}
	holds := map[int64]*hold{}
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Kind == Fault {
			continue
		}
		k := keys[op.Key]
		if k == nil {
			k = &keyLog{key: op.Key}
			keys[op.Key] = k
			x.keys = append(x.keys, k)
		}
		k.ops = append(k.ops, op)
		if op.Kind == Acquire {
			a := &hold{op: op, until: op.Until}
			holds[op.Hold] = a
			k.holds = append(k.holds, a)
			continue
		}
		a := holds[op.Hold]
		if a == nil || a.op.Key != op.Key {
			return nil, fmt.Errorf("%v: no such hold on %q", op, op.Key)
		}
		x.follow(a, op, k, rules, v)
	}
	for _, k := range x.keys {
		x.finish(k)
	}
	return x, nil
}

// A pause is a time in which a client did not run.
type pause struct{ from, to time.Duration }

// trouble collects the faults, and the pauses among them. Pauses that are at most gap apart are
// merged.
func (x *index) trouble(ops []Op, gap time.Duration) {
	for i := range ops {
		if ops[i].Kind == Fault {
			x.faults = append(x.faults, &ops[i])
		}
	}
	slices.SortStableFunc(x.faults, func(a, b *Op) int { return cmp.Compare(a.Call.At, b.Call.At) })
	var healed time.Duration
	for _, f := range x.faults {
		healed = max(healed, f.Return.At)
		x.heals = append(x.heals, healed)
		if f.What != Pause {
			continue
		}
		p := x.pauses[f.Client]
		if n := len(p); n > 0 && f.Call.At <= p[n-1].to+gap {
			p[n-1].to = max(p[n-1].to, f.Return.At)
		} else {
			x.pauses[f.Client] = append(p, pause{f.Call.At, f.Return.At})
		}
	}
}

// order collects the times of all events and checks that numbers and times agree.
func (x *index) order(ops []Op) error {
	var last int64
	for i := range ops {
		last = max(last, ops[i].Call.Seq, ops[i].Return.Seq, ops[i].Wait.Seq)
	}
	if last > 3*int64(len(ops)) {
		return fmt.Errorf("event %d in %d operations: the numbers have gaps", last, len(ops))
	}
	x.at = make([]time.Duration, last+1)
	seen := make([]bool, last+1)
	for i := range ops {
		for _, s := range []Stamp{ops[i].Call, ops[i].Return, ops[i].Wait} {
			if s.Seq == 0 {
				continue
			}
			if seen[s.Seq] {
				return fmt.Errorf("%v: event %d occurs twice", &ops[i], s.Seq)
			}
			seen[s.Seq], x.at[s.Seq] = true, s.At
		}
	}
	for i := 1; i < len(x.at); i++ {
		if !seen[i] {
			x.at[i] = x.at[i-1] // an event that was not kept
		} else if x.at[i] < x.at[i-1] {
			return fmt.Errorf("event %d is at %v, after one at %v", i, x.at[i], x.at[i-1])
		}
	}
	return nil
}

// follow adds an operation to its hold.
func (x *index) follow(h *hold, op *Op, k *keyLog, rules Rules, v *Verdict) {
	if !rules.Early && op.Outcome == NotHeld && h.op.Outcome == Granted && h.ended == nil && h.freeing == nil && op.Return.At < h.until {
		v.add(I9, k.key, []*Op{h.op, op}, "a claim was gone before its trust ended, and its owner had not released it")
	}
	// A client may record after a pause a fact that it learned before the pause.
	late := h.until != 0 && op.Return.At > x.due(op.Client, h.until, rules.Tolerance)
	switch op.Kind {
	case Renew:
		if op.Outcome == Done && op.Until != 0 {
			if late || h.lost != nil && op.Return.At > h.lost.Call.At {
				v.add(I4, k.key, []*Op{h.op, h.lost, op}, "trust came back after it had ended")
			}
			h.until = op.Until
		}
	case Release:
		if h.release == nil {
			h.release = op
		}
		if h.freeing == nil && op.Outcome != NotHeld && op.Outcome != Failed {
			h.freeing = op
		}
	case Lower:
		if op.Outcome != NotHeld && op.Outcome != Failed {
			h.lower = append(h.lower, op)
		}
	case Lost:
		if h.lost == nil {
			h.lost = op
		}
	case Gone:
		if h.gone == nil {
			h.gone = op
		}
	case Trust:
		if late {
			v.add(I4, k.key, []*Op{h.op, op}, "a lease reported that it was held %v after its trust ended", op.Return.At-h.until)
		}
	case Write, Plain:
		k.writes = append(k.writes, op)
	}
	if h.ended == nil && (op.Outcome == NotHeld || op.Kind == Release && op.Outcome == Done) {
		h.ended = op
	}
}

// finish computes the spans of a key.
func (x *index) finish(k *keyLog) {
	for _, h := range k.holds {
		if h.op.Outcome != Granted {
			continue
		}
		k.grants = append(k.grants, h)
		h.start, h.stop = pos(h.op.Return), x.before(h.until)
		for _, op := range []*Op{h.release, h.lost, h.gone} {
			if op != nil {
				h.stop = min(h.stop, pos(op.Call))
			}
		}
	}
	slices.SortFunc(k.grants, func(a, b *hold) int { return cmp.Compare(a.start, b.start) })
}
