package faults

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
)

// queueTTL is how long a claim may live that was pushed to the first waiter, until its first
// renewal.
const queueTTL = 3 * time.Second

// Takeovers examines the keys that had a waiter when their holder was killed. It returns their
// number, and the longest time from the kill to the next grant. Keys that another fault may have
// delayed do not count. The promise is a TTL and a second. A pushed claim that is not renewed yet
// lives for the rest of its queue TTL, so it may take that and a second. Such claims are counted
// separately, as handed.
func (r *Run) Takeovers() (n, handed int, worst time.Duration, errs []error) {
	s := r.spans()
	for _, kill := range s.faults {
		if kill.What != string(torture.Kill) {
			continue
		}
		for _, h := range s.holds {
			if h.op.Client != kill.Client || h.op.Return.At > kill.Call.At || h.ended < kill.Call.At {
				continue
			}
			next := s.next(h.op, kill.Call.At)
			if next == nil {
				continue
			}
			took := next.Return.At - kill.Call.At
			if s.troubled(kill, next) {
				continue
			}
			bound := r.TTL + r.Late + time.Second
			if h.op.Wait.Seq != 0 && (h.renewed == 0 || h.renewed > kill.Call.At) {
				bound = max(bound, queueTTL+r.Late+time.Second)
				handed++
			} else {
				n++
				worst = max(worst, took)
			}
			if took > bound {
				errs = append(errs, fmt.Errorf("the holder was killed at %v, and the next was granted %v later: %v", kill.Call.At, took, next))
			}
		}
	}
	return n, handed, worst, errs
}

// Heals returns the longest time from the end of a server's fault to the next grant of any key, and
// the number of such faults. The promise is a TTL and two seconds.
func (r *Run) Heals() (n int, worst time.Duration, errs []error) {
	s := r.spans()
	for _, f := range s.faults {
		if f.Client != "" {
			continue
		}
		at := f.Return.At
		i := slices.IndexFunc(s.holds, func(h span) bool { return h.op.Return.At > at })
		if i < 0 || slices.ContainsFunc(s.faults, func(o *history.Op) bool {
			return o.Client == "" && o.Call.At >= at && o.Call.At < s.holds[i].op.Return.At
		}) {
			continue // the run had ended, or the next fault came before
		}
		n++
		took := s.holds[i].op.Return.At - at
		if worst = max(worst, took); took > r.TTL+r.Late+2*time.Second {
			errs = append(errs, fmt.Errorf("%s ended at %v, and no key was granted for %v", f.What, at, took))
		}
	}
	return n, worst, errs
}

// A span is a hold with the time of its first renewal, and the time when its holder released it or
// its loss was reported.
type span struct {
	op             *history.Op
	renewed, ended time.Duration
}

type spans struct {
	holds  []span // in order of their grants
	faults []*history.Op
	stalls []history.Op
}

func (r *Run) spans() *spans {
	s := &spans{stalls: r.stalls}
	ended, renewed := map[int64]time.Duration{}, map[int64]time.Duration{}
	for i := range r.History.Ops {
		op := &r.History.Ops[i]
		switch op.Kind {
		case history.Fault:
			s.faults = append(s.faults, op)
		case history.Renew:
			if renewed[op.Hold] == 0 && op.Outcome == history.Done {
				renewed[op.Hold] = op.Return.At
			}
		case history.Release, history.Lost:
			if was, ok := ended[op.Hold]; !ok || op.Call.At < was {
				ended[op.Hold] = op.Call.At
			}
		case history.Acquire:
			if op.Outcome == history.Granted {
				s.holds = append(s.holds, span{op: op})
			}
		}
	}
	for i := range s.holds {
		at, ok := ended[s.holds[i].op.Hold]
		if !ok {
			at = r.History.End
		}
		s.holds[i].ended, s.holds[i].renewed = at, renewed[s.holds[i].op.Hold]
	}
	slices.SortFunc(s.holds, func(a, b span) int { return cmp.Compare(a.op.Return.Seq, b.op.Return.Seq) })
	return s
}

// next returns the next grant of a key after a time, if another client waited for it then.
func (s *spans) next(op *history.Op, at time.Duration) *history.Op {
	for _, h := range s.holds {
		if h.op.Key == op.Key && h.op.Return.At > at {
			if h.op.Client != op.Client && h.op.Wait.Seq != 0 && h.op.Wait.At < at {
				return h.op
			}
			return nil
		}
	}
	return nil
}

// troubled reports whether another fault may have delayed the grant after a kill. Queue entries of
// dead processes stay for three seconds after their last attempt. A waiter that is stopped while it
// is granted keeps the others waiting for a TTL and more.
func (s *spans) troubled(kill, next *history.Op) bool {
	const dead, slow = queueTTL + time.Second, 2 * time.Second
	for _, f := range s.faults {
		after := f.Return.At + slow
		if f.What == string(torture.Kill) {
			after = f.Return.At + dead
		}
		if f != kill && f.Call.At < next.Return.At && after > kill.Call.At {
			return true
		}
	}
	return slices.ContainsFunc(s.stalls, func(f history.Op) bool {
		return f.Client == next.Client && f.Call.At < next.Return.At && f.Return.At > kill.Call.At+time.Second
	})
}
