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

// A holder that is stopped or cut off for longer than its TTL finds at its first check that its
// lease is lost.
func TestLosses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64, longer time.Duration) error {
			_, short := losses(t, sys, seed, longer*15*time.Second, 2)
			return short
		})
	})
}

func losses(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration, least int) (events int, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 6, Keys: 3, Play: "losses", NoKills: true, Promised: true,
		Only: []faults.Kind{faults.Partition, faults.Dropped, faults.DroppedBack, faults.DroppedToward,
			faults.RepliesLost, faults.RequestsLost},
	})
	events, inTime, errs := r.Reported()
	t.Logf("%d faults in which a lease was lost, %d reported in time", events, inTime)
	if inTime != events {
		errs = append(errs, fmt.Errorf("%d faults in which a lease was lost, and %d reported in time",
			events, inTime))
	}
	_, short = check(t, r, history.Minimums{Grants: 10, ContendedWaits: 5, FaultsOverHold: 2},
		append(errs, atLeast(events, least, "faults in which a lease was lost"))...)
	return events, short
}

// A killed holder has a successor when its TTL has passed, and not much later.
func TestTakeover(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		if sys.Memory {
			t.Skip("the store ends with its process")
		}
		defer light()()
		enough(t, func(seed uint64, longer time.Duration) error {
			n, handed, _, short := takeover(t, sys, seed, longer*20*time.Second)
			return errors.Join(short, atLeast(n+handed, 1, "takeovers"))
		})
	})
}

func takeover(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration) (n, handed int, worst time.Duration, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{Seed: seed, Time: lasts, Processes: 3, Keys: 4, Play: "losses",
		Calm: true, NoPauses: true, Recovery: 8 * ttl})
	n, handed, worst, errs := r.Takeovers()
	_, short = check(t, r, history.Minimums{Grants: 5, ContendedWaits: 3, FaultsOverHold: 1}, errs...)
	t.Logf("%d takeovers, the longest took %v; %d of pushed claims that were not renewed yet",
		n, worst, handed)
	return n, handed, worst, short
}

// Processes are granted the lock in the order in which they came, except those that met a fault.
func TestQueue(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64, longer time.Duration) error {
			only := faults.Reset
			if sys.Memory {
				only = faults.Partition // the store has no other fault
			}
			r := play(t, sys, faults.Options{
				Seed: seed, Time: longer * 12 * time.Second, Processes: 6, Play: "queue", Keys: 1, NoKills: true, Only: []faults.Kind{only},
			}, func(f driver.Features) bool { return f.Queue })
			pairs, errs := r.Order()
			_, short := check(t, r, history.Minimums{Grants: 40, ContendedWaits: 20, FaultsOverHold: 2},
				append(errs, atLeast(pairs, 4, "pairs in the queue"))...)
			t.Logf("%d pairs in order", pairs)
			return short
		})
	})
}

// All callers get the same result of work that is done once, and the work is not done again after a
// caller got the result.
func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64, longer time.Duration) error {
			r := play(t, sys, faults.Options{Seed: seed, Time: longer * 12 * time.Second, Processes: 4, Play: "once",
				Keys: 2, Promised: true},
				func(f driver.Features) bool { return f.Keep && f.Value })
			keys, done, errs := r.Results()
			_, short := check(t, r, history.Minimums{Grants: 20, FaultsOverHold: 3},
				append(errs, atLeast(keys, 20, "things that were done"))...)
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
		enough(t, func(seed uint64, longer time.Duration) error {
			r := play(t, sys, faults.Options{Seed: seed, Time: longer * 12 * time.Second, Processes: 4,
				Play: "election", Keys: 3, Promised: true},
				func(f driver.Features) bool { return f.Fence && f.Value })
			terms, errs := r.Terms()
			_, short := check(t, r, history.Minimums{Grants: 12, FaultsOverHold: 3},
				append(errs, atLeast(terms, 12, "terms"))...)
			t.Logf("%d terms", terms)
			return short
		})
	})
}
