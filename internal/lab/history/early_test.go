package history

import (
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// spansOf returns a history of exclusive holds of one key: from the grant to the end of trust, in
// seconds, and whether the release, half a second before that, found the claim gone.
func spansOf(holds ...[3]int) *History {
	h := &History{End: time.Minute}
	var seq int64
	at := func(d time.Duration) Stamp {
		seq++
		return Stamp{At: d, Seq: seq}
	}
	for i, s := range holds {
		from, until := time.Duration(s[0])*time.Second, time.Duration(s[1])*time.Second
		outcome := Done
		if s[2] == 1 {
			outcome = NotHeld
		}
		op := Op{Key: "k", Client: "c", Hold: int64(i + 1)}
		acquire, release := op, op
		acquire.Kind, acquire.Outcome, acquire.Weight, acquire.Limit = Acquire, Granted, driver.Whole, driver.Whole
		acquire.Fence, acquire.Until, acquire.Call, acquire.Return = uint64(128*(i+1)), until, at(from), at(from)
		release.Kind, release.Outcome = Release, outcome
		release.Call, release.Return = at(until-500*time.Millisecond), at(until-500*time.Millisecond)
		h.Ops = append(h.Ops, acquire, release)
	}
	return Merge(h)
}

// A claim that is gone before its time is a violation, unless claims may end early. Two holders are
// always a violation.
func TestVerify_early(t *testing.T) {
	for name, tt := range map[string]struct {
		h           *History
		strict, not int // I3, I9 and model
	}{
		"in its time":            {spansOf([3]int{1, 3, 0}, [3]int{4, 6, 0}), 0, 0},
		"early":                  {spansOf([3]int{1, 3, 1}, [3]int{4, 6, 0}), 2, 0},
		"two holders":            {spansOf([3]int{1, 5, 0}, [3]int{3, 7, 0}), 2, 2},
		"two, and the first one": {spansOf([3]int{1, 5, 1}, [3]int{3, 7, 0}), 3, 1},
	} {
		for early, want := range map[bool]int{false: tt.strict, true: tt.not} {
			v, _ := Verify(tt.h, Rules{Early: early}, Search{})
			if got := v.Count[I3] + v.Count[I9] + v.Count[Model]; got != want {
				t.Errorf("%s, early %v: %v", name, early, v.Count)
			}
		}
	}
}

func TestCheck_Overlap(t *testing.T) {
	for _, tt := range []struct {
		h    *History
		want time.Duration
	}{
		{spansOf([3]int{1, 3, 0}), 0},
		{spansOf([3]int{1, 3, 0}, [3]int{4, 6, 0}), -1500 * time.Millisecond}, // from the call of the release
		{spansOf([3]int{1, 3, 0}, [3]int{4, 6, 0}, [3]int{6, 8, 0}), -500 * time.Millisecond},
		{spansOf([3]int{1, 5, 0}, [3]int{3, 7, 0}), 1500 * time.Millisecond},
	} {
		if got := Check(tt.h, Rules{}).Overlap; got != tt.want {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
}
