package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The model is a lock: its holders, and the highest fence of its former holders.
//
// Each hold contributes two operations to the model: its acquire, and its end. The end needs no
// call: a claim may expire at any time after the end of its holder's trust. A grant to a rival
// before the end of trust, or before the release, therefore fits nowhere in the order. All other
// facts about a hold only limit the positions of its end. Stating them as limits keeps the search
// short.

// A step is the effect of an input.
type step uint8

const (
	begins step = iota // a claim is granted
	ends               // it ends, if it is live
	lowers             // its weight is lowered, if it is live
	isGone             // it is found not to be live
)

// An input is an operation of the model.
type input struct {
	step step
	op   *Op // the source: for an end, the acquire
}

// A state is the state of the model's lock.
type state struct {
	holders []holder // in order of hold
	ended   uint64   // the highest fence of the former holders
}

type holder struct {
	hold   int64
	weight int64
	fence  uint64
}

func lockModel() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return state{} },
		Step:  func(s, in, _ any) (bool, any) { return s.(state).step(in.(input)) },
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
		Hash:  func(s any) uint64 { return s.(state).hash() },
		DescribeOperation: func(in, _ any) string {
			i := in.(input)
			if i.step == ends {
				return fmt.Sprintf("end of hold=%d", i.op.Hold)
			}
			return i.op.String()
		},
		DescribeState: func(s any) string { return s.(state).String() },
	}
}

// operations returns the operations of a key for the model. Refusals are left out: see the package
// comment. An acquire without an answer is left out too, while refusals are accepted: it could
// always have come last.
func (x *index) operations(k *keyLog) []porcupine.Operation {
	clients := map[string]int{}
	var out []porcupine.Operation
	add := func(s step, op *Op, call, ret int64) {
		id, ok := clients[op.Client]
		if !ok {
			id = len(clients)
			clients[op.Client] = id
		}
		out = append(out, porcupine.Operation{ClientId: id, Input: input{s, op}, Call: call, Return: max(call, ret)})
	}
	for _, h := range k.grants {
		add(begins, h.op, pos(h.op.Call), pos(h.op.Return))
		for _, op := range h.lower {
			by := x.cleared(k, h, pos(op.Call))
			if op.Outcome == Done {
				by = pos(op.Return)
			}
			add(lowers, op, pos(op.Call), by)
		}
		from, to := x.ending(k, h)
		if from != never {
			add(ends, h.op, from, to)
		}
		if h.ended != nil && h.ended.Outcome == NotHeld && pos(h.ended.Return) < from {
			add(isGone, h.ended, pos(h.ended.Call), pos(h.ended.Return))
		}
	}
	return out
}

// ending returns the positions between which a claim ended: not before its holder released it,
// stopped trusting it or died, and not after the holder, or a rival, could know of the end. Some
// stores end the claims of the dead at once, which does no harm. A release that comes later proves
// nothing by its success: a late copy of the acquire may have created another claim or queue entry
// of the same owner, which does no harm.
func (x *index) ending(k *keyLog, h *hold) (from, to int64) {
	from = x.before(h.until)
	if h.freeing != nil {
		from = min(from, pos(h.freeing.Call))
	}
	if h.gone != nil {
		from = min(from, pos(h.gone.Call))
	}
	if x.early && h.ended != nil && h.ended.Outcome == NotHeld {
		from = min(from, h.start)
	}
	to = x.cleared(k, h, from)
	if h.ended != nil {
		to = min(to, pos(h.ended.Return))
	}
	return from, to
}

// cleared returns a position, not before from, by which a hold had certainly ended: the return of
// the next rival that had a span.
func (x *index) cleared(k *keyLog, h *hold, from int64) int64 {
	i, _ := slices.BinarySearchFunc(k.grants, max(from, h.start+1), func(g *hold, at int64) int {
		return cmp.Compare(g.start, at)
	})
	for _, g := range k.grants[i:] {
		if g.live() && (g.op.whole() || h.op.whole()) {
			return g.start
		}
	}
	return pos(Stamp{Seq: int64(len(x.at))}) // the end of the history
}

func (s state) step(in input) (bool, state) {
	op := in.op
	i, held := slices.BinarySearchFunc(s.holders, op.Hold, func(h holder, id int64) int { return cmp.Compare(h.hold, id) })
	switch in.step {
	case begins:
		used := op.Weight
		for _, h := range s.holders {
			used += h.weight
		}
		ok := !held && used <= op.Limit && (op.Fence == 0 || op.Fence > s.ended)
		s.holders = slices.Insert(slices.Clone(s.holders), i, holder{op.Hold, op.Weight, op.Fence})
		return ok, s
	case ends:
		return true, s.without(i, held)
	case lowers:
		if held {
			s.holders = slices.Clone(s.holders)
			s.holders[i].weight = min(s.holders[i].weight, op.Weight)
		}
		return true, s
	default: // isGone
		return !held, s
	}
}

func (s state) without(i int, held bool) state {
	if held {
		s.ended = max(s.ended, s.holders[i].fence)
		s.holders = slices.Delete(slices.Clone(s.holders), i, i+1)
	}
	return s
}

func (s state) equal(o state) bool { return s.ended == o.ended && slices.Equal(s.holders, o.holders) }

func (s state) hash() uint64 {
	const prime = 1099511628211 // FNV-1a's
	n := s.ended*prime + 1
	for _, h := range s.holders {
		n = (n ^ uint64(h.hold)) * prime
		n = (n ^ uint64(h.weight)) * prime
	}
	return n
}

func (s state) String() string {
	var b strings.Builder
	for _, h := range s.holders {
		fmt.Fprintf(&b, "hold=%d weight=%d fence=%d; ", h.hold, h.weight, h.fence)
	}
	fmt.Fprintf(&b, "ended=%d", s.ended)
	return b.String()
}
