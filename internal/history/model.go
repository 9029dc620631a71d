package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The model is a lock: those who hold it, and the highest fence of those who did. A
// claim may run out at any time after the end of its holder's trust: for each hold there
// is an operation of its own that nobody called, which ends the claim if it is live. So a
// grant to a rival before the end of trust fits nowhere.

// An input is an operation as the model sees it.
type input struct {
	op     *Op
	expire bool // the pseudo-operation; op is the acquire
	sure   bool // the hold was granted for certain
}

// A state is that of the model's lock.
type state struct {
	holders []holder // in order of hold
	ended   uint64   // the highest fence of those who are not holders any more
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
			if in := in.(input); in.expire {
				return fmt.Sprintf("end of trust, hold=%d", in.op.Hold)
			}
			return in.(input).op.String()
		},
		DescribeState: func(s any) string { return s.(state).String() },
	}
}

// operations are those of a key that the model judges. Refusals say nothing: see the package
// comment. Neither does an acquire without an answer, while refusals are believed: it could
// always have come last.
func (x *index) operations(k *keyLog) []porcupine.Operation {
	holds := map[int64]*hold{}
	clients := map[string]int{}
	var out []porcupine.Operation
	add := func(in input, call, ret int64) {
		id, ok := clients[in.op.Client]
		if !ok {
			id = len(clients)
			clients[in.op.Client] = id
		}
		out = append(out, porcupine.Operation{ClientId: id, Input: in, Call: call, Return: max(call, ret)})
	}
	for _, h := range k.holds {
		holds[h.op.Hold] = h
		if h.op.Outcome != Granted {
			continue
		}
		add(input{op: h.op}, pos(h.op.Call), pos(h.op.Return))
		if trust := x.before(h.until); h.until != 0 && (h.ended == nil || pos(h.ended.Return) > trust) {
			add(input{op: h.op, expire: true}, trust, x.cleared(k, h, trust))
		}
	}
	for _, op := range k.ops {
		h := holds[op.Hold]
		in := input{op: op, sure: h.op.Outcome == Granted}
		answered := op.Outcome == Done || op.Outcome == NotHeld
		switch {
		case op.Kind == Release && op.Outcome != Failed && !answered:
			add(in, pos(op.Call), x.cleared(k, h, pos(op.Call)))
		case op.Kind == Release && answered, op.Kind == Renew && answered, op.Kind == Lower && answered:
			add(in, pos(op.Call), pos(op.Return))
		}
	}
	return out
}

// cleared is a position by which a hold had surely ended, if it is not before a given one: the return
// of the next rival that had a span. What has no return of its own must have happened by then, if
// it had an effect at all, and saying so keeps the search short.
func (x *index) cleared(k *keyLog, h *hold, from int64) int64 {
	i, _ := slices.BinarySearchFunc(k.grants, max(from, h.start+1), func(g *hold, at int64) int {
		return cmp.Compare(g.start, at)
	})
	for _, g := range k.grants[i:] {
		if g.live() && (g.op.whole() || h.op.whole()) {
			return g.start
		}
	}
	return pos(Stamp{Seq: int64(len(x.at))})
}

func (s state) step(in input) (bool, state) {
	op := in.op
	i, held := slices.BinarySearchFunc(s.holders, op.Hold, func(h holder, id int64) int { return cmp.Compare(h.hold, id) })
	switch {
	case in.expire:
		return true, s.without(i, held)
	case op.Kind == Acquire:
		used := op.Weight
		for _, h := range s.holders {
			used += h.weight
		}
		ok := !held && used <= op.Limit && (op.Fence == 0 || op.Fence > s.ended)
		s.holders = slices.Insert(slices.Clone(s.holders), i, holder{op.Hold, op.Weight, op.Fence})
		return ok, s
	case op.Kind == Release && op.Outcome == Done:
		// A place in line is released too, so only a grant makes this a statement.
		return held || !in.sure, s.without(i, held)
	case op.Kind == Release && op.Outcome != NotHeld:
		return true, s.without(i, held)
	case op.Outcome == NotHeld:
		return !held, s
	case op.Kind == Lower && held:
		s.holders = slices.Clone(s.holders)
		s.holders[i].weight = min(s.holders[i].weight, op.Weight)
		return true, s
	default: // a renewal that was done
		return held, s
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
