package proof_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/tests/internal/faults"
)

// A holder that is stopped or cut off for longer than its TTL finds in its first look that its lease is lost.
func TestTold(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64) error {
			_, short := told(t, sys, seed, 15*time.Second, 2)
			return short
		})
	})
}

func told(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration, least int) (events int, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 6, Keys: 3, Play: "told", Spare: true, Promised: true,
		Only: []faults.Kind{faults.Partition, faults.Dropped, faults.DroppedBack, faults.DroppedToward, faults.RepliesLost, faults.RequestsLost},
	})
	events, inTime, errs := r.Told()
	if t.Logf("%d faults in which a lease was lost, %d told in time", events, inTime); inTime != events {
		errs = append(errs, fmt.Errorf("%d faults in which a lease was lost, and %d told in time", events, inTime))
	}
	_, short = judge(t, r, history.Minimums{Grants: 10, ContendedWaits: 5, FaultsOverHold: 2},
		append(errs, atLeast(events, least, "faults in which a lease was lost"))...)
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
	r := play(t, sys, faults.Options{Seed: seed, Time: lasts, Processes: 3, Keys: 4, Play: "told", Calm: true, Slay: true, Rest: 8 * ttl})
	n, handed, worst, errs := r.Takeovers()
	_, short = judge(t, r, history.Minimums{Grants: 5, ContendedWaits: 3, FaultsOverHold: 1}, errs...)
	t.Logf("%d takeovers, the longest took %v; %d of claims that were handed on and not renewed yet", n, worst, handed)
	return n, handed, worst, short
}

// Processes are served in the order in which they came, but for those that something happened to.
func TestQueue(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64) error {
			only := faults.Reset
			if sys.Memory {
				only = faults.Partition // it has no other
			}
			r := play(t, sys, faults.Options{
				Seed: seed, Time: 12 * time.Second, Processes: 6, Play: "queue", Keys: 1, Spare: true, Only: []faults.Kind{only},
			}, func(f driver.Features) bool { return f.Queue })
			pairs, errs := r.Order()
			_, short := judge(t, r, history.Minimums{Grants: 40, ContendedWaits: 20, FaultsOverHold: 2},
				append(errs, atLeast(pairs, 4, "pairs that stood in line"))...)
			t.Logf("%d pairs in order", pairs)
			return short
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
			_, short := judge(t, r, history.Minimums{Grants: 20, FaultsOverHold: 3}, append(errs, atLeast(keys, 20, "things that were done"))...)
			t.Logf("%d things, done %d times", keys, done)
			return short
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
			_, short := judge(t, r, history.Minimums{Grants: 12, FaultsOverHold: 3}, append(errs, atLeast(terms, 12, "terms"))...)
			t.Logf("%d terms", terms)
			return short
		})
	})
}
