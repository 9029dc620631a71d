package proof_test

import (
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/faults"
	"github.com/distlock/distlock/internal/history"
)

// all reports errors.
func all(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if i == 10 {
			t.Errorf("and %d more", len(errs)-i)
			return
		}
		t.Error(err)
	}
}

// A holder that is stopped or cut off for longer than its TTL finds in its first look that its lease is lost.
func TestTold(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		told(t, sys, *seed, 15*time.Second, 2)
	})
}

func told(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration, least int) (events, inTime int) {
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 6, Keys: 3, Play: "told", Spare: true, Promised: true,
		Only: []faults.Kind{faults.Partition, faults.Dropped, faults.DroppedBack, faults.DroppedToward, faults.RepliesLost, faults.RequestsLost},
	})
	judge(t, r, history.Minimums{Grants: 10, ContendedWaits: 5, FaultsOverHold: least})
	events, inTime, errs := r.Told()
	all(t, errs)
	if t.Logf("%d faults in which a lease was lost, %d told in time", events, inTime); events < least || inTime != events {
		t.Errorf("%d faults in which a lease was lost, %d told in time; want %d and all", events, inTime, least)
	}
	return events, inTime
}

// A holder that is killed is succeeded when its TTL is over, and not much later.
func TestTakeover(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		if sys.Memory {
			t.Skip("it ends with its process")
		}
		defer light()()
		takeover(t, sys, 20*time.Second)
	})
}

func takeover(t *testing.T, sys *faults.System, lasts time.Duration) (n int, worst time.Duration) {
	r := play(t, sys, faults.Options{Time: lasts, Processes: 3, Keys: 4, Play: "told", Calm: true, Slay: true, Rest: 12 * ttl})
	judge(t, r, history.Minimums{Grants: 5, ContendedWaits: 3, FaultsOverHold: 1})
	n, handed, worst, errs := r.Takeovers()
	all(t, errs)
	if t.Logf("%d takeovers, the longest took %v; %d of claims that were handed on and not renewed yet", n, worst, handed); n+handed == 0 {
		t.Error("nothing was taken over: this shows nothing")
	}
	return n, worst
}

// Processes are served in the order in which they came, but for those that something happened to.
func TestQueue(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		r := play(t, sys, faults.Options{Time: 12 * time.Second, Processes: 6, Play: "queue", Keys: 1, Spare: true, Only: []faults.Kind{faults.Reset}},
			func(f driver.Features) bool { return f.Queue })
		judge(t, r, history.Minimums{Grants: 40, ContendedWaits: 20})
		pairs, errs := r.Order()
		all(t, errs)
		if t.Logf("%d pairs in order", pairs); pairs < 4 {
			t.Errorf("%d pairs that stood in line, want 4", pairs)
		}
	})
}

// What is done once is told to all alike, and is not done again after anybody was told.
func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		r := play(t, sys, faults.Options{Time: 12 * time.Second, Processes: 4, Play: "once", Keys: 2, Promised: true},
			func(f driver.Features) bool { return f.Keep && f.Value })
		keys, done, errs := r.Results()
		all(t, errs)
		if t.Logf("%d things, done %d times", keys, done); keys < 20 {
			t.Errorf("%d things were done, want 20", keys)
		}
	})
}

// Leaders lead one after the other.
func TestElection(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		r := play(t, sys, faults.Options{Time: 12 * time.Second, Processes: 4, Play: "election", Keys: 3, Promised: true},
			func(f driver.Features) bool { return f.Fence && f.Value })
		terms, errs := r.Terms()
		all(t, errs)
		if t.Logf("%d terms", terms); terms < 20 {
			t.Errorf("%d terms, want 20", terms)
		}
	})
}
