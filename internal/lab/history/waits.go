package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// waits checks I5, I6 and I7: the waiters that waited too long, and the time in which a key had
// capacity and waiters and was not granted.
func (x *index) waits(k *keyLog, rules Rules, v *Verdict) {
	healed := x.healed(x.end)
	for _, h := range k.holds {
		if h.op.Wait.Seq == 0 || rules.Stuck == 0 {
			continue
		}
		from := max(h.op.Wait.At, healed)
		if to := x.returned(h); to-from > rules.Stuck {
			v.add(I5, k.key, []*Op{h.op}, "a waiter was neither granted nor refused for %v", to-from)
		}
	}
	if rules.HandOver == 0 && rules.Takeover == 0 {
		return
	}
	q := &queue{x: x, k: k, rules: rules, v: v, waiting: map[class]int{}}
	for _, m := range x.moments(k) {
		q.step(m)
	}
	q.check(x.end, nil)
}

// returned returns when an acquire returned, or its caller was gone, or the end of the history.
func (x *index) returned(h *hold) time.Duration {
	switch {
	case h.op.Return.Seq != 0:
		return h.op.Return.At
	case h.gone != nil:
		return h.gone.Call.At
	}
	return x.end
}

// healed returns when all the faults that began before t had ended; 0 if there was none.
func (x *index) healed(t time.Duration) time.Duration {
	i := sort.Search(len(x.faults), func(i int) bool { return x.faults[i].Call.At >= t })
	if i == 0 {
		return 0
	}
	return x.heals[i-1]
}

// A moment is a change of the holders or the waiters of a key.
type moment struct {
	at    time.Duration
	pos   int64
	op    *Op
	what  move
	bound bool // leaves: by a release, so HandOver applies
}

type move uint8

const (
	leaves  move = iota // a claim has certainly ended, or trust in it has
	quits               // a waiter is gone
	enters              // a claim may be live
	granted             // the same, and it is a grant
	queues              // a waiter begins to wait
)

// moments lists the changes on a key in order.
func (x *index) moments(k *keyLog) []moment {
	var out []moment
	add := func(at time.Duration, pos int64, op *Op, what move, released bool) {
		out = append(out, moment{at, pos, op, what, released})
	}
	for _, h := range k.holds {
		op := h.op
		if op.Wait.Seq != 0 {
			add(op.Wait.At, pos(op.Wait), op, queues, false)
		}
		switch op.Outcome {
		case Granted:
			add(op.Return.At, pos(op.Return), op, granted, false)
			trust := x.before(h.until)
			switch {
			case h.ended != nil && pos(h.ended.Return) < trust:
				add(h.ended.Return.At, pos(h.ended.Return), op, leaves, true)
			case h.until != 0:
				add(max(h.until, op.Return.At), max(trust, pos(op.Return)), op, leaves, false)
			}
		case Unknown, Pending:
			// The attempt may have been granted without an answer. Then the claim ends only with
			// its TTL.
			end := x.returned(h) + op.TTL
			add(op.Call.At, pos(op.Call), op, enters, false)
			add(end, x.before(end), op, leaves, false)
		}
		switch {
		case op.Wait.Seq != 0 && op.Return.Seq != 0:
			add(op.Return.At, pos(op.Return), op, quits, false) // after its grant, which ends the idle time
		case op.Wait.Seq != 0 && h.gone != nil:
			add(h.gone.Call.At, pos(h.gone.Call), op, quits, false)
		}
	}
	slices.SortStableFunc(out, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.pos, b.pos))
	})
	return out
}

// A class is a set of waiters with the same request.
type class struct{ weight, limit int64 }

// A queue is the state of the waits at one moment.
type queue struct {
	x     *index
	k     *keyLog
	rules Rules
	v     *Verdict

	used    int64
	waiting map[class]int
	idle    bool          // there is capacity for every waiter, and there is a waiter
	since   time.Duration // the beginning of idle
	bound   time.Duration // how long idle may last; 0: not checked
	reason  *Op
}

func (q *queue) step(m moment) {
	c := class{m.op.Weight, m.op.Limit}
	switch m.what {
	case granted:
		q.check(m.at, m.op)
		q.idle = false // the next waiter has its own time
		q.used += m.op.Weight
	case enters:
		q.used += m.op.Weight
	case leaves:
		q.used -= m.op.Weight
	case queues:
		q.waiting[c]++
	case quits:
		if m.op.Outcome != Granted {
			q.check(m.at, nil)
		}
		if q.waiting[c]--; q.waiting[c] == 0 {
			delete(q.waiting, c)
		}
	}
	free := len(q.waiting) > 0
	for c := range q.waiting {
		free = free && q.used+c.weight <= c.limit
	}
	if free && !q.idle {
		q.since, q.reason, q.bound = m.at, m.op, q.rules.HandOver
		if m.what == leaves && !m.bound {
			q.bound = q.rules.Takeover
		}
	}
	q.idle = free
}

// check checks a key that was idle until now, when a grant was made, or when a waiter left or the
// history ended without one.
func (q *queue) check(now time.Duration, grant *Op) {
	if !q.idle || q.bound == 0 {
		return
	}
	due := max(q.since+q.bound, q.x.healed(now)+q.rules.Heal)
	if now <= due {
		return
	}
	if grant == nil {
		q.v.add(I6, q.k.key, []*Op{q.reason}, "the key had capacity and waiters from %v to %v, and no waiter was granted", q.since, now)
		return
	}
	q.v.add(I7, q.k.key, []*Op{q.reason, grant}, "the key had capacity and waiters from %v, and was granted %v later", q.since, now-q.since)
}
