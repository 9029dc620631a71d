package history

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// two lets two processes with recorders of one clock hold a key one after the other, or at once.
func two(t *testing.T, together bool) (a, b *History) {
	synctest.Test(t, func(*testing.T) {
		start := time.Now()
		time.Sleep(time.Second) // the recorders are created later than their clock began
		ra, rb := NewSince(start, nil), NewSince(start, nil)
		ha := ra.Acquire(Want{Client: "a", Key: "k"})
		ha.Granted(1, time.Now().Add(time.Minute))
		hb := rb.Acquire(Want{Client: "b", Key: "k"})
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
			v, err := Verify(h, Rules{}, Search{})
			if (err != nil) != together {
				t.Errorf("together %v: %v", together, err)
			}
			if v.Grants != 2 || v.Waits != 1 || together && v.Count[I3] != 1 || v.Count[Record] > 0 {
				t.Errorf("together %v: %+v", together, v)
			}
		}
	}
}

// The reports of all changes contain as much as the recorder.
func TestRecorder_reports(t *testing.T) {
	reported := map[int]Op{}
	r := NewSince(time.Now(), func(n int, op Op) { reported[n] = op })
	h := r.Acquire(Want{Client: "a", Key: "k"})
	h.Waiting()
	h.Granted(1, time.Now().Add(time.Minute))
	renewal := h.Renew()
	h.Release() // it does not return
	renewal.Extended(time.Now().Add(time.Hour))
	r.Fault("a", "cut", time.Now(), time.Now())

	ops := r.History().Ops
	if len(reported) != len(ops) {
		t.Fatalf("%d of %d operations were reported", len(reported), len(ops))
	}
	for i, n := range slices.Sorted(maps.Keys(reported)) {
		if reported[n] != ops[i] {
			t.Errorf("reported %v, want %v", reported[n], ops[i])
		}
	}
}

// A fact that was learned before a pause and recorded after it is not late. A fact that was learned
// after the pause is late.
func TestCheck_lateByAPause(t *testing.T) {
	for _, paused := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := New()
			w := r.Acquire(Want{Client: "b", Key: "other"})
			w.Waiting()
			w.Ended(Refused)
			h := r.Acquire(Want{Client: "a", Key: "k"})
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

// A store may end the claim of a process that died before its TTL has passed. It may not end the
// claim of a live process.
func TestVerify_gone(t *testing.T) {
	for _, gone := range []bool{true, false} {
		var h *History
		synctest.Test(t, func(*testing.T) {
			r := New()
			dead := r.Acquire(Want{Client: "a", Key: "k"})
			dead.Granted(1, time.Now().Add(time.Minute))
			next := r.Acquire(Want{Client: "b", Key: "k"})
			next.Waiting()
			time.Sleep(time.Second)
			if gone {
				dead.Gone()
			}
			next.Granted(200, time.Now().Add(time.Minute))
			next.Release().End(Done)
			h = r.History()
		})
		if v, err := Verify(h, Rules{}, Search{}); (err == nil) != gone || (v.Count[Model] == 0) != gone {
			t.Errorf("gone %v: %v", gone, err)
		}
	}
}
