package history

import (
	"cmp"
	"slices"
	"sort"

	"github.com/distlock/distlock/driver"
)

// A high is the highest number up to a position of the history: a fence, or a value.
type high struct {
	at int64
	n  uint64
	op *Op // the operation of the number
}

// highs is a list of highs, in order.
type highs []high

// push adds a number at a position that is not before the last one.
func (s highs) push(at int64, n uint64, op *Op) highs {
	if len(s) > 0 && s[len(s)-1].n >= n {
		return s
	}
	return append(s, high{at, n, op})
}

// before returns the highest number before a position, or the zero high.
func (s highs) before(at int64) high {
	i := sort.Search(len(s), func(i int) bool { return s[i].at >= at })
	if i == 0 {
		return high{}
	}
	return s[i-1]
}

// fences checks I2. A grant must have a higher fence than each grant that was certainly made before
// it and had certainly ended. That holds for one of two grants if
//
//   - it returned before the other was called, and either is whole;
//   - it returned before the other did, either is whole and both have a span. If it had been
//     made after the other, the other would have ended before it returned;
//   - its release returned before the other was called.
func (k *keyLog) fences(v *Verdict) {
	var called, calledWhole, lived, livedWhole, ended highs
	for _, h := range k.grants {
		if h.op.Fence == 0 || h.op.Fence >= driver.MaxFence {
			v.add(I2, k.key, []*Op{h.op}, "%d is not a fence", h.op.Fence)
		}
		called = called.push(h.start, h.op.Fence, h.op)
		if h.op.whole() {
			calledWhole = calledWhole.push(h.start, h.op.Fence, h.op)
		}
		if h.live() {
			lived = lived.push(h.start, h.op.Fence, h.op)
			if h.op.whole() {
				livedWhole = livedWhole.push(h.start, h.op.Fence, h.op)
			}
		}
	}
	byEnd := slices.Clone(k.grants)
	byEnd = slices.DeleteFunc(byEnd, func(h *hold) bool { return h.ended == nil })
	slices.SortFunc(byEnd, func(a, b *hold) int { return cmp.Compare(a.ended.Return.Seq, b.ended.Return.Seq) })
	for _, h := range byEnd {
		ended = ended.push(pos(h.ended.Return), h.op.Fence, h.op)
	}

	for _, h := range k.grants {
		older := []high{ended.before(pos(h.op.Call)), calledWhole.before(pos(h.op.Call))}
		if h.op.whole() {
			older = append(older, called.before(pos(h.op.Call)))
		}
		if h.live() {
			older = append(older, livedWhole.before(h.start))
			if h.op.whole() {
				older = append(older, lived.before(h.start))
			}
		}
		for _, o := range older {
			if o.op != nil && o.n >= h.op.Fence {
				v.add(I2, k.key, []*Op{o.op, h.op}, "fence %d came after fence %d", h.op.Fence, o.n)
				break
			}
		}
	}
	k.unique(v)
}

// unique checks that no whole grant shares its fence.
func (k *keyLog) unique(v *Verdict) {
	seen := map[uint64]*hold{}
	for _, h := range k.grants {
		o := seen[h.op.Fence]
		if o != nil && (o.op.whole() || h.op.whole()) {
			v.add(I2, k.key, []*Op{o.op, h.op}, "fence %d was given twice", h.op.Fence)
		}
		if o == nil || h.op.whole() {
			seen[h.op.Fence] = h
		}
	}
}

// registers checks I1: the order of fences in the writes that registers accepted, and the updates
// that they lost.
func (k *keyLog) registers(v *Verdict) {
	byName := map[string][]*Op{}
	for _, op := range k.writes {
		if op.Outcome == Done {
			name := op.Kind.String() + op.What
			byName[name] = append(byName[name], op)
		}
	}
	for _, ops := range byName {
		slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Return.Seq, b.Return.Seq) })
		if ops[0].Kind == Plain {
			overwritten(ops, func(a, b *Op) { v.LostPlain++ })
			continue
		}
		overwritten(ops, func(a, b *Op) {
			v.add(I1, k.key, []*Op{a, b}, "an acknowledged update of register %q was lost", a.What)
		})
		var taken highs
		owner := map[uint64]*Op{}
		for _, op := range ops {
			if o := taken.before(pos(op.Call)); o.n > op.Fence {
				v.add(I1, k.key, []*Op{o.op, op}, "register %q accepted fence %d after fence %d", op.What, op.Fence, o.n)
			}
			taken = taken.push(pos(op.Return), op.Fence, op)
			if o := owner[op.Fence]; o != nil && o.Hold != op.Hold {
				v.add(I1, k.key, []*Op{o, op}, "two holds wrote to register %q with one fence", op.What)
			}
			owner[op.Fence] = op
		}
	}
}

// overwritten calls lost for each update that was overwritten before its value was read: two
// updates that were made from the same value, or one made from an older value than was acknowledged
// before it.
func overwritten(ops []*Op, lost func(a, b *Op)) {
	from := map[uint64]*Op{}
	var put highs
	for _, op := range ops {
		if o := from[op.Saw]; o != nil {
			lost(o, op)
		} else if o := put.before(pos(op.Call)); o.n > op.Saw {
			lost(o.op, op)
		}
		from[op.Saw] = op
		put = put.push(pos(op.Return), op.Put, op)
	}
}
