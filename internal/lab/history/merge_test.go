package history

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// two lets two processes with recorders of one clock hold a key in turn, or at once.
func two(t *testing.T, together bool) (a, b *History) {
	synctest.Test(t, func(*testing.T) {
		start := time.Now()
		time.Sleep(time.Second) // the recorders are made later than their clock began
		ra, rb := NewSince(start, nil), NewSince(start, nil)
		ha := ra.Ask(Want{Client: "a", Key: "k"})
		ha.Granted(1, time.Now().Add(time.Minute))
		hb := rb.Ask(Want{Client: "b", Key: "k"})
		hb.Waiting()
		time.Sleep(time.Second)
		if together {
			hb.Granted(129, time.Now().Add(time.Minute))
			time.Sleep(time.Second)
		}
		ha.Release().End(Done)
		time.Sleep(time.Second)
		if !together {
			hb.Granted(129, time.Now().Add(time.Minute))
		}
		hb.Release().End(Done)
		a, b = ra.History(), rb.History()
	})
	return a, b
}

func TestMerge(t *testing.T) {
	for _, together := range []bool{false, true} {
		a, b := two(t, together)
		for _, h := range []*History{Merge(a, b), Merge(b, a)} {
			v, err := Judge(h, Rules{}, Search{})
			if (err != nil) != together {
				t.Errorf("together %v: %v", together, err)
			}
			if v.Grants != 2 || v.Waits != 1 || together && v.Count[I3] != 1 || v.Count[Record] > 0 {
				t.Errorf("together %v: %+v", together, v)
			}
		}
	}
}

// Whoever was told of each change knows as much as the recorder.
func TestRecorder_tells(t *testing.T) {
	told := map[int]Op{}
	r := NewSince(time.Now(), func(n int, op Op) { told[n] = op })
	h := r.Ask(Want{Client: "a", Key: "k"})
	h.Waiting()
	h.Granted(1, time.Now().Add(time.Minute))
	renewal := h.Renew()
	h.Release() // it does not return
	renewal.Extended(time.Now().Add(time.Hour))
	r.Fault("a", "cut", time.Now(), time.Now())

	ops := r.History().Ops
	if len(told) != len(ops) {
		t.Fatalf("%d were told of %d", len(told), len(ops))
	}
	for i, n := range slices.Sorted(maps.Keys(told)) {
		if told[n] != ops[i] {
			t.Errorf("told %v of %v", told[n], ops[i])
		}
	}
}

// What was learned before a pause and taken down after it is not late; what was learned after it is.
func TestCheck_lateByAPause(t *testing.T) {
	for _, paused := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := New()
			w := r.Ask(Want{Client: "b", Key: "other"})
			w.Waiting()
			w.Ended(Refused)
			h := r.Ask(Want{Client: "a", Key: "k"})
			h.Granted(1, time.Now().Add(time.Second))
			if paused {
				now := time.Now()
				r.Fault("a", Pause, now, now.Add(2*time.Second))
				r.Fault("a", Pause, now.Add(time.Second/2), now.Add(time.Second)) // within the other one
			}
			time.Sleep(2 * time.Second)
			h.Renew().Extended(time.Now().Add(time.Second))
			h.Release().End(Done)
			if v := Check(r.History(), Rules{}); (v.Count[I4] == 0) != paused {
				t.Errorf("paused %v: %v", paused, v.Err())
			}
		})
	}
}

// A store may end the claim of a process that died, before its TTL is over; that of a living one it may not.
func TestJudge_gone(t *testing.T) {
	for _, gone := range []bool{true, false} {
		var h *History
		synctest.Test(t, func(*testing.T) {
			r := New()
			dead := r.Ask(Want{Client: "a", Key: "k"})
			dead.Granted(1, time.Now().Add(time.Minute))
			next := r.Ask(Want{Client: "b", Key: "k"})
			next.Waiting()
			time.Sleep(time.Second)
			if gone {
				dead.Gone()
			}
			next.Granted(200, time.Now().Add(time.Minute))
			next.Release().End(Done)
			h = r.History()
		})
		if v, err := Judge(h, Rules{}, Search{}); (err == nil) != gone || (v.Count[Model] == 0) != gone {
			t.Errorf("gone %v: %v", gone, err)
		}
	}
}
