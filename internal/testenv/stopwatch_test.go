package testenv

import (
	"testing"
	"testing/synctest"
	"time"
)

// A stopwatch counts the time in which it can check, and not the time of a stall.
func TestStopwatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewStopwatch(t)
		time.Sleep(time.Second)
		if d := w.Elapsed(); d != time.Second {
			t.Errorf("after a second: %v", d)
		}
		var stalls int
		stop := Stalls(beat/2, func(from, to time.Time) {
			stalls++
			if to.Sub(from) != beat {
				t.Errorf("from %v to %v", from, to)
			}
		})
		none := Stalls(stall, func(from, to time.Time) { t.Errorf("from %v to %v", from, to) })
		time.Sleep(10*beat + 1)
		stop()
		none()
		if stalls != 10 {
			t.Errorf("%d stalls reported, want each beat", stalls)
		}
	})
	began := time.Now()
	w := &Stopwatch{began: began, last: began}
	for _, look := range []struct{ at, want time.Duration }{{5, 5}, {30, 30}, {1030, 35}, {1035, 40}, {1061, 45}, {1061, 45}} {
		if d := w.look(began.Add(look.at * time.Millisecond)); d != look.want*time.Millisecond {
			t.Errorf("at %d ms: %v, want %d ms", look.at, d, look.want)
		}
	}
}
