package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// waits is I5, I6 and I7: who waited too long, and for how long a key had room
// and waiters and was not granted.
func (x *index) waits(k *keyLog, rules Rules, v *Verdict) {
	healed := x.healed(x.end)
	for _, h := range k.holds {
		if h.op.Wait.Seq == 0 || rules.Stuck == 0 {
			continue
		}
		from := max(h.op.Wait.At, healed)
		if to := x.returned(h); to-from > rules.Stuck {
			v.add(I5, k.key, []*Op{h.op}, "a waiter was neither served nor sent away for %v", to-from)
		}
	}
	if rules.HandOver == 0 && rules.Takeover == 0 {
		return
	}
	l := &line{x: x, k: k, rules: rules, v: v, waiting: map[class]int{}}
	for _, m := range x.moments(k) {
		l.step(m)
	}
	l.judge(x.end, nil)
}

// returned is when an acquire returned, or its caller was gone, or the end of the history.
func (x *index) returned(h *hold) time.Duration {
	switch {
	case h.op.Return.Seq != 0:
		return h.op.Return.At
	case h.gone != nil:
		return h.gone.Call.At
	}
	return x.end
}

// healed is when all the faults that began before t were over; 0 if there was none.
func (x *index) healed(t time.Duration) time.Duration {
	i := sort.Search(len(x.faults), func(i int) bool { return x.faults[i].Call.At >= t })
	if i == 0 {
		return 0
	}
	return x.heals[i-1]
}

// A moment is a change in who holds a key and who waits for it.
type moment struct {
	at    time.Duration
	pos   int64
	op    *Op
	what  move
	bound bool // leaves: by a release, so HandOver applies
}

type move uint8

const (
	leaves  move = iota // a claim has surely ended, or trust in it has
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
			// It may have been granted unseen, and then nobody ends it before its TTL.
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

// A class is what waiters of one sort ask for.
type class struct{ weight, limit int64 }

// A line is the state of waits at one moment.
type line struct {
	x     *index
	k     *keyLog
	rules Rules
	v     *Verdict

	used    int64
	waiting map[class]int
	idle    bool          // there is room for everybody who waits, and somebody does
	since   time.Duration // of idle
	bound   time.Duration // how long idle may last; 0: not judged
	reason  *Op
}

func (l *line) step(m moment) {
	c := class{m.op.Weight, m.op.Limit}
	switch m.what {
	case granted:
		l.judge(m.at, m.op)
		l.idle = false // whoever is next has its own time
		l.used += m.op.Weight
	case enters:
		l.used += m.op.Weight
	case leaves:
		l.used -= m.op.Weight
	case queues:
		l.waiting[c]++
	case quits:
		if m.op.Outcome != Granted {
			l.judge(m.at, nil)
		}
		if l.waiting[c]--; l.waiting[c] == 0 {
			delete(l.waiting, c)
		}
	}
	room := len(l.waiting) > 0
	for c := range l.waiting {
		room = room && l.used+c.weight <= c.limit
	}
	if room && !l.idle {
		l.since, l.reason, l.bound = m.at, m.op, l.rules.HandOver
		if m.what == leaves && !m.bound {
			l.bound = l.rules.Takeover
		}
	}
	l.idle = room
}

// judge looks at a key that was idle until now, when a grant was made, or when a waiter
// left or the history ended without one.
func (l *line) judge(now time.Duration, grant *Op) {
	if !l.idle || l.bound == 0 {
		return
	}
	due := max(l.since+l.bound, l.x.healed(now)+l.rules.Heal)
	if now <= due {
		return
	}
	if grant == nil {
		l.v.add(I6, l.k.key, []*Op{l.reason}, "the key had room and waiters from %v to %v, and nobody was granted", l.since, now)
		return
	}
	l.v.add(I7, l.k.key, []*Op{l.reason, grant}, "the key had room and waiters from %v, and was granted %v later", l.since, now-l.since)
}
