package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// script creates a history of operations whose stamps have times in ms and no numbers yet. Among
// events of one time the order is that of the list; within one operation the call is first.
func script(end time.Duration, ops ...Op) *History {
	h := &History{End: end, Ops: slices.Clone(ops)}
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.Call.At, b.Call.At) })
	var stamps []*Stamp
	for i := range ops {
		op := &h.Ops[i]
		if op.Kind == Fault {
			continue
		}
		stamps = append(stamps, &op.Call)
		if op.Wait.At != 0 {
			stamps = append(stamps, &op.Wait)
		}
		if op.Outcome != Pending {
			stamps = append(stamps, &op.Return)
		}
	}
	slices.SortStableFunc(stamps, func(a, b *Stamp) int { return cmp.Compare(a.At, b.At) })
	for i, s := range stamps {
		s.Seq = int64(i + 1)
	}
	return h
}

func op(k Kind, o Outcome, hold int64, call, ret time.Duration) Op {
	return Op{
		Kind: k, Outcome: o, Key: "k", Client: string(rune('a' + hold - 1)), Hold: hold,
		Call: Stamp{At: call * ms}, Return: Stamp{At: ret * ms},
	}
}

// grant returns an exclusive grant with fence f. Its trust lasts until the given time.
func grant(hold int64, call, ret time.Duration, f uint64, until time.Duration) Op {
	a := op(Acquire, Granted, hold, call, ret)
	a.Fence, a.Until, a.Weight, a.Limit = f, until*ms, 9, 9
	return a
}

func (o Op) weighing(weight, limit int64) Op { o.Weight, o.Limit = weight, limit; return o }
func (o Op) waiting(at time.Duration) Op     { o.Wait.At = at * ms; return o }
func (o Op) lasting(ttl time.Duration) Op    { o.TTL = ttl * ms; return o }
func (o Op) until(t time.Duration) Op        { o.Until = t * ms; return o }

func write(hold int64, call, ret time.Duration, f, saw, put uint64) Op {
	w := op(Write, Done, hold, call, ret)
	w.What, w.Fence, w.Saw, w.Put = "r", f, saw, put
	return w
}

func fault(client, what string, from, to time.Duration) Op {
	return Op{Kind: Fault, Client: client, What: what, Call: Stamp{At: from * ms}, Return: Stamp{At: to * ms}}
}

func released(hold int64, call, ret time.Duration) Op { return op(Release, Done, hold, call, ret) }
func lost(hold int64, at time.Duration) Op            { return op(Lost, Done, hold, at, at) }

func TestCheck_rules(t *testing.T) {
	bounds := Rules{Stuck: 50 * ms, HandOver: 10 * ms, Takeover: 20 * ms, Heal: 15 * ms}
	for _, c := range []struct {
		name  string
		rules Rules
		ops   []Op
		want  []Invariant // exactly these
	}{
		{name: "one after the other", ops: []Op{
			grant(1, 0, 1, 10, 50), released(1, 5, 6), grant(2, 2, 7, 11, 60), released(2, 8, 9),
		}},
		{name: "a grant may return before the release that made it possible", ops: []Op{
			grant(1, 0, 1, 10, 50), released(1, 5, 9), grant(2, 2, 7, 11, 60), released(2, 8, 9),
		}},
		{name: "in one instant", ops: []Op{
			grant(1, 1, 1, 10, 50), released(1, 1, 1), grant(2, 1, 1, 11, 50), released(2, 1, 1),
		}},
		{name: "in one instant, the other way round", want: []Invariant{I3, Model}, ops: []Op{
			grant(1, 1, 1, 10, 50), grant(2, 1, 1, 11, 50), released(1, 1, 1), released(2, 1, 1),
		}},
		{name: "trust that ends in the instant of the next grant", ops: []Op{
			grant(1, 0, 1, 10, 20), grant(2, 2, 20, 11, 50), lost(1, 20), released(2, 21, 22),
		}},
		{name: "trust that ends later", want: []Invariant{I3, Model}, ops: []Op{
			grant(1, 0, 1, 10, 21), grant(2, 2, 20, 11, 50), lost(1, 21), released(2, 22, 23),
		}},
		{name: "a loss reported early, so the hold ended early, but the claim did not", want: []Invariant{Model}, ops: []Op{
			grant(1, 0, 1, 10, 21), lost(1, 15), grant(2, 2, 20, 11, 50), released(2, 22, 23),
		}},
		{name: "a renewal", want: []Invariant{I3, Model}, ops: []Op{
			grant(1, 0, 1, 10, 20), op(Renew, Done, 1, 5, 6).until(30), lost(1, 30),
			grant(2, 2, 25, 11, 50), released(2, 31, 32),
		}},
		{name: "a renewal that shortens", ops: []Op{
			grant(1, 0, 1, 10, 50), op(Renew, Done, 1, 5, 6).until(20), lost(1, 20),
			grant(2, 2, 25, 11, 50), released(2, 31, 32),
		}},
		{name: "a renewal after the end of trust", want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), op(Renew, Done, 1, 15, 21).until(40), released(1, 30, 31),
		}},
		{name: "a renewal after the loss was reported", want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), lost(1, 10), op(Renew, Done, 1, 11, 12).until(40), released(1, 30, 31),
		}},
		{name: "such a renewal that the holder ignored", ops: []Op{
			grant(1, 0, 1, 10, 20), op(Renew, Done, 1, 15, 21), lost(1, 20),
		}},
		{name: "a holder that died", ops: []Op{grant(1, 0, 1, 10, 20), op(Gone, Done, 1, 5, 5)}},

		{name: "not reported", want: []Invariant{I4}, ops: []Op{grant(1, 0, 1, 10, 20)}},
		{name: "not reported yet", ops: []Op{grant(1, 0, 1, 10, 2000)}},
		{name: "reported late", want: []Invariant{I4}, ops: []Op{grant(1, 0, 1, 10, 20), lost(1, 21)}},
		{name: "reported late, within the tolerance", rules: Rules{Tolerance: ms}, ops: []Op{grant(1, 0, 1, 10, 20), lost(1, 21)}},
		{name: "reported within the tolerance, but after a rival", rules: Rules{Tolerance: 5 * ms}, want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), lost(1, 23), grant(2, 2, 22, 11, 50), released(2, 24, 25),
		}},
		{name: "reported when the pause had ended", ops: []Op{
			grant(1, 0, 1, 10, 20), fault("a", Pause, 10, 30), lost(1, 30), grant(2, 2, 22, 11, 50), released(2, 24, 25),
		}},
		{name: "reported after the pause", want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), fault("a", Pause, 10, 30), lost(1, 31),
		}},
		{name: "reported after two pauses with a gap in which the holder may not have run", rules: Rules{Gap: ms}, ops: []Op{
			grant(1, 0, 1, 10, 20), fault("a", Pause, 10, 20), fault("a", Pause, 21, 30), lost(1, 30), grant(2, 2, 25, 11, 50), released(2, 26, 27),
		}},
		{name: "reported after two pauses, the holder ran in between", rules: Rules{Gap: ms}, want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), fault("a", Pause, 10, 20), fault("a", Pause, 22, 30), lost(1, 30), grant(2, 2, 25, 11, 50), released(2, 26, 27),
		}},
		{name: "reported within the tolerance of running time", rules: Rules{Tolerance: 3 * ms}, ops: []Op{
			grant(1, 0, 1, 10, 20), fault("a", Pause, 10, 30), fault("a", Pause, 32, 60), lost(1, 61),
		}},
		{name: "reported after the tolerance of running time", rules: Rules{Tolerance: 3 * ms}, want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), fault("a", Pause, 10, 30), fault("a", Pause, 32, 60), lost(1, 62),
		}},
		{name: "the pause of another client", want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), fault("b", Pause, 10, 30), lost(1, 30),
		}},
		{name: "reports that it is held", ops: []Op{grant(1, 0, 1, 10, 20), op(Trust, Done, 1, 20, 20), lost(1, 20)}},
		{name: "still reports that it is held", want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 1, 10, 20), op(Trust, Done, 1, 21, 21), lost(1, 20),
		}},

		{name: "fence repeats", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), released(1, 5, 6), grant(2, 7, 8, 10, 60), released(2, 9, 9),
		}},
		{name: "fence goes back between calls that overlap", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), released(1, 5, 8), grant(2, 0, 7, 9, 60), released(2, 9, 9),
		}},
		{name: "fence 0", want: []Invariant{I2}, ops: []Op{grant(1, 0, 1, 0, 50), released(1, 5, 6)}},
		{name: "no fences", rules: Rules{NoFences: true}, ops: []Op{
			grant(1, 0, 1, 0, 50), released(1, 5, 6), grant(2, 7, 8, 0, 60), released(2, 9, 9),
		}},
		{name: "a grant whose trust had ended when it returned may be an old one", want: []Invariant{I4}, ops: []Op{
			grant(1, 0, 40, 10, 20), lost(1, 40), grant(2, 25, 26, 11, 90), released(2, 50, 51),
		}},
		{name: "lost when the holder first checked", ops: []Op{
			grant(1, 5, 40, 10, 4), lost(1, 40), released(1, 41, 42), grant(2, 25, 26, 11, 90), released(2, 50, 51),
		}},
		{name: "lost when the holder first checked, and not reported then", want: []Invariant{I4}, ops: []Op{
			grant(1, 5, 40, 10, 4), lost(1, 60), grant(2, 61, 62, 11, 90), released(2, 70, 71),
		}},
		{name: "handed off with the next fence", ops: []Op{
			grant(1, 0, 1, 128, 50), released(1, 4, 5), grant(2, 2, 5, 129, 50), released(2, 6, 7), grant(3, 2, 8, 256, 60), released(3, 9, 9),
		}},
		{name: "shared ones side by side, in any order of fences", ops: []Op{
			grant(1, 0, 1, 20, 50).weighing(1, 9), grant(2, 2, 3, 10, 50).weighing(1, 9), released(1, 4, 5), released(2, 6, 7),
		}},
		{name: "a shared one below one that had ended", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 20, 50).weighing(1, 9), released(1, 4, 5), grant(2, 6, 7, 10, 50).weighing(1, 9), released(2, 8, 9),
		}},
		{name: "a shared one below an exclusive one", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 20, 5), lost(1, 5), grant(2, 6, 7, 10, 50).weighing(1, 9), released(2, 8, 9),
		}},

		{name: "a shared one below an exclusive one, between calls that overlap", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 20, 5), lost(1, 5), grant(2, 0, 7, 10, 50).weighing(1, 9), released(2, 8, 9),
		}},
		{name: "a shared one below an exclusive one without a span", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 20, 1), lost(1, 1), grant(2, 6, 7, 10, 50).weighing(1, 9), released(2, 8, 9),
		}},
		{name: "an exclusive one below a shared one, between calls that overlap", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 20, 5).weighing(1, 9), lost(1, 5), grant(2, 0, 7, 10, 50), released(2, 8, 9),
		}},
		{name: "an exclusive one below a shared one without a span", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 1, 20, 1).weighing(1, 9), lost(1, 1), grant(2, 6, 7, 10, 50), released(2, 8, 9),
		}},
		{name: "one fence for two that have no order", want: []Invariant{I2, Model}, ops: []Op{
			grant(1, 0, 10, 10, 5), lost(1, 5), grant(2, 1, 3, 10, 50), released(2, 4, 6),
		}},

		{name: "two of two", ops: []Op{
			grant(1, 0, 1, 10, 50).weighing(1, 2), grant(2, 2, 3, 20, 50).weighing(1, 2), released(1, 4, 5), released(2, 6, 7),
		}},
		{name: "three of two", want: []Invariant{I3, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50).weighing(1, 2), grant(2, 2, 3, 20, 50).weighing(1, 2), grant(3, 2, 3, 30, 50).weighing(1, 2),
			released(1, 4, 5), released(2, 6, 7), released(3, 6, 7),
		}},
		{name: "limits that differ: the last grant rules, and may be either", ops: []Op{
			grant(1, 0, 10, 10, 50).weighing(1, 2), grant(2, 2, 5, 20, 50).weighing(2, 5), released(1, 14, 15), released(2, 16, 17),
		}},
		{name: "writer with reader", want: []Invariant{I3, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50).weighing(1, 9), grant(2, 2, 3, 20, 50), released(1, 4, 5), released(2, 6, 7),
		}},
		{name: "reader together with a writer that became one", ops: []Op{
			grant(1, 0, 1, 10, 50), op(Lower, Done, 1, 2, 5).weighing(1, 0), grant(2, 3, 4, 20, 50).weighing(1, 9),
			released(1, 6, 7), released(2, 6, 7),
		}},
		{name: "reader together with a writer that was refused to be one", want: []Invariant{I3, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), op(Lower, Failed, 1, 2, 5).weighing(1, 0), grant(2, 3, 4, 20, 50).weighing(1, 9),
			released(1, 6, 7), released(2, 6, 7),
		}},

		{name: "a release that may have worked", ops: []Op{
			grant(1, 0, 1, 10, 50), op(Release, Unknown, 1, 5, 6), grant(2, 2, 7, 11, 60), released(2, 8, 9), op(Release, NotHeld, 1, 10, 11),
		}},
		{name: "a release that did not return", ops: []Op{
			grant(1, 0, 1, 10, 50), op(Release, Pending, 1, 5, 0), grant(2, 2, 7, 11, 60), released(2, 8, 9),
		}},
		{name: "a claim that another client ended", want: []Invariant{I9, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), op(Release, NotHeld, 1, 5, 6),
		}},
		{name: "the same, seen by a renewal", want: []Invariant{I9, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), op(Renew, NotHeld, 1, 5, 6), lost(1, 6),
		}},
		{name: "the same, and the loss was reported", want: []Invariant{I9, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), lost(1, 4), op(Release, NotHeld, 1, 5, 6),
		}},
		{name: "a release after the end of trust", ops: []Op{
			grant(1, 0, 1, 10, 20), lost(1, 20), op(Release, NotHeld, 1, 25, 26),
		}},
		{name: "a release that was done twice, by way of a late copy of the acquire", ops: []Op{
			grant(1, 0, 1, 10, 50), op(Release, Unknown, 1, 5, 6), grant(2, 2, 7, 11, 60), released(2, 8, 9), released(1, 10, 11),
		}},
		{name: "an acquire that may have worked", ops: []Op{
			grant(1, 0, 1, 10, 50), op(Acquire, Unknown, 2, 2, 3).weighing(9, 9), released(2, 4, 5), released(1, 6, 7),
		}},
		{name: "untyped", want: []Invariant{I10}, ops: []Op{
			grant(1, 0, 1, 10, 50), op(Release, Untyped, 1, 5, 6),
		}},

		{name: "writes", ops: []Op{
			grant(1, 0, 1, 10, 50), write(1, 2, 3, 10, 0, 1), write(1, 3, 4, 10, 1, 2), released(1, 5, 6),
			grant(2, 7, 8, 11, 60), write(2, 9, 10, 11, 2, 3), released(2, 11, 12),
		}},
		{name: "a write with a lower fence", want: []Invariant{I1}, ops: []Op{
			grant(1, 0, 1, 10, 5), lost(1, 5), grant(2, 7, 8, 11, 60), write(2, 9, 10, 11, 0, 1), write(1, 11, 12, 10, 1, 2), released(2, 13, 14),
		}},
		{name: "a lost update", want: []Invariant{I1}, ops: []Op{
			grant(1, 0, 1, 10, 5), write(1, 2, 9, 10, 0, 1), lost(1, 5), grant(2, 7, 8, 11, 60), write(2, 9, 10, 11, 0, 1), released(2, 13, 14),
		}},
		{name: "two updates from one value at once", want: []Invariant{I1}, ops: []Op{
			grant(1, 0, 1, 10, 5), write(1, 2, 10, 10, 0, 1), lost(1, 5), grant(2, 7, 8, 11, 60), write(2, 9, 11, 11, 0, 1), released(2, 13, 14),
		}},
		{name: "an update made from an old value", want: []Invariant{I1}, ops: []Op{
			grant(1, 0, 1, 10, 50), write(1, 2, 3, 10, 0, 1), write(1, 3, 4, 10, 1, 2), write(1, 5, 6, 10, 3, 4), write(1, 7, 8, 10, 2, 3), released(1, 9, 9),
		}},
		{name: "one fence, two writers", want: []Invariant{I1, I2, Model}, ops: []Op{
			grant(1, 0, 1, 10, 50), write(1, 2, 3, 10, 0, 1), released(1, 4, 5),
			grant(2, 7, 8, 10, 60), write(2, 9, 10, 10, 1, 2), released(2, 11, 12),
		}},

		{name: "a quick hand-over", rules: bounds, ops: []Op{
			grant(1, 0, 1, 10, 90), grant(2, 2, 40, 11, 90).waiting(3), released(1, 28, 30), released(2, 41, 42),
		}},
		{name: "a slow hand-over", rules: bounds, want: []Invariant{I7}, ops: []Op{
			grant(1, 0, 1, 10, 90), grant(2, 2, 41, 11, 90).waiting(3), released(1, 28, 30), released(2, 42, 43),
		}},
		{name: "a slow one with a fault in between", rules: bounds, ops: []Op{
			grant(1, 0, 1, 10, 90), grant(2, 2, 41, 11, 90).waiting(3), released(1, 28, 30), released(2, 42, 43), fault("c", "cut", 29, 30),
		}},
		{name: "a slow one long after a fault", rules: bounds, want: []Invariant{I7}, ops: []Op{
			grant(1, 0, 1, 10, 90), grant(2, 2, 41, 11, 90).waiting(3), released(1, 28, 30), released(2, 42, 43), fault("c", "cut", 2, 25),
		}},
		{name: "a take-over", rules: bounds, ops: []Op{
			grant(1, 0, 1, 10, 20), lost(1, 20), grant(2, 2, 40, 11, 90).waiting(3), released(2, 42, 43),
		}},
		{name: "a slow take-over", rules: bounds, want: []Invariant{I7}, ops: []Op{
			grant(1, 0, 1, 10, 20), lost(1, 20), grant(2, 2, 41, 11, 90).waiting(3), released(2, 42, 43),
		}},
		{name: "an orphan in the way", rules: bounds, ops: []Op{
			op(Acquire, Unknown, 1, 1, 2).weighing(9, 9).lasting(30), grant(2, 2, 41, 11, 90).waiting(3), released(2, 42, 43),
		}},
		{name: "capacity, but no waiter is granted", rules: bounds, want: []Invariant{I6}, ops: []Op{
			grant(1, 0, 1, 10, 90), op(Acquire, Refused, 2, 2, 45).weighing(9, 9).waiting(3), released(1, 28, 30),
		}},
		{name: "capacity for one of two waiters", rules: bounds, ops: []Op{
			grant(1, 0, 1, 10, 90).weighing(1, 2), released(1, 44, 45),
			grant(2, 0, 46, 20, 90).weighing(2, 2).waiting(2), released(2, 47, 48),
			grant(3, 0, 49, 30, 90).weighing(1, 2).waiting(3), released(3, 50, 51),
		}},
		{name: "capacity for a reader together with a reader", rules: bounds, want: []Invariant{I7}, ops: []Op{
			grant(1, 0, 1, 10, 90).weighing(1, 9), released(1, 44, 45),
			grant(2, 2, 30, 20, 90).weighing(1, 9).waiting(3), released(2, 47, 48),
		}},
		{name: "one after the other through the same capacity", rules: bounds, ops: []Op{
			grant(1, 0, 1, 10, 90), released(1, 29, 30),
			grant(2, 2, 38, 20, 90).weighing(1, 9).waiting(3), released(2, 50, 51),
			grant(3, 2, 46, 30, 90).weighing(1, 9).waiting(3), released(3, 50, 51),
		}},
		{name: "another waiter does not restart the bound", rules: bounds, want: []Invariant{I7}, ops: []Op{
			grant(1, 0, 1, 10, 90), released(1, 29, 30),
			grant(2, 2, 42, 20, 90).weighing(1, 9).waiting(3), released(2, 50, 51),
			grant(3, 2, 46, 30, 90).weighing(1, 9).waiting(35), released(3, 50, 51),
		}},
		{name: "a long wait", rules: Rules{Stuck: 50 * ms}, want: []Invariant{I5}, ops: []Op{
			grant(1, 0, 1, 10, 90), released(1, 64, 65), grant(2, 2, 66, 20, 90).waiting(3), released(2, 70, 71),
		}},
		{name: "a long wait with faults", rules: Rules{Stuck: 50 * ms}, ops: []Op{
			grant(1, 0, 1, 10, 90), released(1, 64, 65), grant(2, 2, 66, 20, 90).waiting(3), released(2, 70, 71), fault("c", "cut", 5, 40),
		}},
		{name: "a waiter that never returns", rules: bounds, want: []Invariant{I5}, ops: []Op{
			grant(1, 0, 1, 10, 0), op(Acquire, Pending, 2, 2, 0).weighing(9, 9).waiting(3),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := script(100*ms, c.ops...)
			v, _ := Verify(h, c.rules, Search{})
			delete(v.Count, Minimum)
			if got := slices.Sorted(maps.Keys(v.Count)); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v\n%v", got, c.want, v.Violations)
			}
		})
	}
}

func TestCheck_refuses_what_is_no_history(t *testing.T) {
	good := func() *History { return script(9*ms, grant(1, 0, 1, 10, 50), released(1, 5, 6)) }
	for name, spoil := range map[string]func(h *History){
		"no such hold":        func(h *History) { h.Ops[1].Hold = 7 },
		"another key":         func(h *History) { h.Ops[1].Key = "other" },
		"an event twice":      func(h *History) { h.Ops[1].Call.Seq = 1 },
		"gaps":                func(h *History) { h.Ops[1].Call.Seq = 1000 },
		"time that goes back": func(h *History) { h.Ops[1].Call.At = 0 },
	} {
		h := good()
		if v := Check(h, Rules{}); v.Count[Record] != 0 {
			t.Fatal(v.Violations)
		}
		spoil(h)
		if _, err := Verify(h, Rules{}, Search{}); err == nil || !strings.Contains(err.Error(), "not a history") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailure_reads_well(t *testing.T) {
	h := script(100*ms, grant(1, 0, 1, 10, 50), grant(2, 2, 3, 11, 50), released(1, 5, 6), released(2, 7, 8))
	err := Check(h, Rules{}).Err()
	const want = `history: 1 x I3, 1 x M38
I3 on "k": 2 holders with a weight of 18 at once, limit 9
	0s..1ms a acquire hold=1 granted fence=10 until=50ms weight=9/9
	2ms..3ms b acquire hold=2 granted fence=11 until=50ms weight=9/9
M38: 0 contended waits, and 1 are needed for a verdict`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

func TestRegister_read_raises_the_fence(t *testing.T) {
	r := New()
	older, newer := r.Acquire(Want{Client: "a", Key: "k"}), r.Acquire(Want{Client: "b", Key: "k"})
	older.Granted(1, time.Time{})
	newer.Granted(2, time.Time{})
	reg := &Register{Name: "r"}
	ok := newer.Update(reg, func() {
		if older.Update(reg, nil) {
			t.Error("the register accepted a write of an older holder after a newer one had read")
		}
	})
	if !ok || reg.value != 1 {
		t.Errorf("%v, value %d, want the write of the newer holder", ok, reg.value)
	}
}
