package proof_test

import (
	"errors"
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
		enough(t, func(seed uint64) error {
			events, short := told(t, sys, seed, 15*time.Second)
			return errors.Join(short, atLeast(events, 2, "faults in which a lease was lost"))
		})
	})
}

func told(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration) (events int, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 6, Keys: 3, Play: "told", Spare: true, Promised: true,
		Only: []faults.Kind{faults.Partition, faults.Dropped, faults.DroppedBack, faults.DroppedToward, faults.RepliesLost, faults.RequestsLost},
	})
	_, short = judge(t, r, history.Minimums{Grants: 10, ContendedWaits: 5, FaultsOverHold: 2})
	events, inTime, errs := r.Told()
	all(t, errs)
	if t.Logf("%d faults in which a lease was lost, %d told in time", events, inTime); inTime != events {
		t.Errorf("%d faults in which a lease was lost, and %d told in time", events, inTime)
	}
	return events, short
}

// A holder that is killed is succeeded when its TTL is over, and not much later.
func TestTakeover(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		if sys.Memory {
			t.Skip("it ends with its process")
		}
		defer light()()
		enough(t, func(seed uint64) error {
			n, handed, _, short := takeover(t, sys, seed, 20*time.Second)
			return errors.Join(short, atLeast(n+handed, 1, "takeovers"))
		})
	})
}

func takeover(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration) (n, handed int, worst time.Duration, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{Seed: seed, Time: lasts, Processes: 3, Keys: 4, Play: "told", Calm: true, Slay: true, Rest: 12 * ttl})
	_, short = judge(t, r, history.Minimums{Grants: 5, ContendedWaits: 3, FaultsOverHold: 1})
	n, handed, worst, errs := r.Takeovers()
	all(t, errs)
	t.Logf("%d takeovers, the longest took %v; %d of claims that were handed on and not renewed yet", n, worst, handed)
	return n, handed, worst, short
}

// Processes are served in the order in which they came, but for those that something happened to.
func TestQueue(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64) error {
			r := play(t, sys, faults.Options{
				Seed: seed, Time: 12 * time.Second, Processes: 6, Play: "queue", Keys: 1, Spare: true, Only: []faults.Kind{faults.Reset},
			}, func(f driver.Features) bool { return f.Queue })
			_, short := judge(t, r, history.Minimums{Grants: 40, ContendedWaits: 20})
			pairs, errs := r.Order()
			all(t, errs)
			t.Logf("%d pairs in order", pairs)
			return errors.Join(short, atLeast(pairs, 4, "pairs that stood in line"))
		})
	})
}

// What is done once is told to all alike, and is not done again after anybody was told.
func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64) error {
			r := play(t, sys, faults.Options{Seed: seed, Time: 12 * time.Second, Processes: 4, Play: "once", Keys: 2, Promised: true},
				func(f driver.Features) bool { return f.Keep && f.Value })
			keys, done, errs := r.Results()
			all(t, errs)
			t.Logf("%d things, done %d times", keys, done)
			return atLeast(keys, 20, "things that were done")
		})
	})
}

// Leaders lead one after the other.
func TestElection(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64) error {
			r := play(t, sys, faults.Options{Seed: seed, Time: 12 * time.Second, Processes: 4, Play: "election", Keys: 3, Promised: true},
				func(f driver.Features) bool { return f.Fence && f.Value })
			terms, errs := r.Terms()
			all(t, errs)
			t.Logf("%d terms", terms)
			return atLeast(terms, 20, "terms")
		})
	})
}
