package proof_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
	"github.com/distlock/distlock/tests/internal/faults"
)

var (
	nightly = flag.Bool("nightly", false, "run TestNightly, which takes about half an hour")
	soak    = flag.Duration("soak", 0, "for how long TestSoak lasts")
	only    = flag.String("store", "", "the one store of the run; empty: all of them")
)

// progress prints the progress of a run to standard error.
func progress(name, what string) func(time.Duration, torture.Progress) {
	return func(took time.Duration, p torture.Progress) {
		fmt.Fprintf(os.Stderr, "%s %s: %v, %d holds, %d waits, %d faults, %d losses\n",
			name, what, took.Round(time.Second), p.Holds, p.Waits, p.Faults, p.Losses)
	}
}

// must fails a long run in which too little happened: the error contains its figures.
func must(t *testing.T, short error) {
	t.Helper()
	if short != nil {
		t.Error(short)
	}
}

// chosen returns the store of the given name; empty: all of them.
func chosen(t testing.TB, name string) []*faults.System {
	t.Helper()
	all := faults.Systems()
	if name == "" {
		return all
	}
	if sys := faults.Find(name); sys != nil {
		return []*faults.System{sys}
	}
	var names []string
	for _, sys := range all {
		names = append(names, sys.Name)
	}
	t.Fatalf("no store is called %q; there are: %s", name, strings.Join(names, ", "))
	return nil
}

// A misspelt name fails a run, which would test nothing.
func TestChosen(t *testing.T) {
	if n := len(chosen(t, "")); n != len(faults.Systems()) {
		t.Errorf("%d stores", n)
	}
	if all := chosen(t, "redis"); len(all) != 1 || all[0].Name != "redis" {
		t.Error(all)
	}
	var f fatal
	if all := chosen(&f, "reddis"); all != nil || !strings.Contains(f.said, `"reddis"; there are: memory, sqlite, redis, `) {
		t.Errorf("%v %s", all, f.said)
	}
}

// A fatal records how a test fails.
type fatal struct {
	testing.TB
	said string
}

func (*fatal) Helper()                          {}
func (f *fatal) Fatalf(format string, a ...any) { f.said = fmt.Sprintf(format, a...) }

// TestNightly measures the figures of docs/guarantees.md: make figures.
func TestNightly(t *testing.T) {
	if !*nightly {
		t.Skip("it needs the flag -nightly: make figures")
	}
	t.Parallel()
	all := chosen(t, *only)
	eachStore(t, all, func(t *testing.T, sys *faults.System) {
		n := &night{sys}
		waits := []func(*testing.T){n.chaos, n.losses, n.takeover}
		works := []func(*testing.T){n.histories, n.counter, n.cycles}
		// Most of the night goes to the tests that need the processors. Half of the stores begin
		// with them, so that these tests do not wait for the others.
		parts := append(waits, works...)
		if slices.Index(all, sys)%2 == 0 {
			parts = append(works, waits...)
		}
		for _, part := range parts {
			part(t)
		}
	})
}

// A night is the set of long runs of one store.
type night struct{ sys *faults.System }

// put records a figure.
func (n *night) put(t *testing.T, name, format string, args ...any) {
	t.Helper()
	write(t, figure{Store: n.sys.Name, Figure: name, Value: fmt.Sprintf(format, args...), Seed: *seed,
		Command: fmt.Sprint("make figures SEED=", *seed)})
}

func (n *night) chaos(t *testing.T) {
	t.Run("chaos", func(t *testing.T) {
		r := play(t, n.sys, faults.Options{
			Time: 90 * time.Second, Processes: 5, Keys: 6, Play: "chaos", Progress: progress(n.sys.Name, "chaos"),
		})
		heals, worst, errs := r.Heals()
		v, short := check(t, r, history.Minimums{Grants: 2000, ContendedWaits: 300,
			FaultsOverHold: 15}, errs...)
		must(t, short)
		n.put(t, "90 s of chaos", "%d grants, %d faults during a hold, 0 violations, overlap %v",
			v.Grants, v.OverHold, v.Overlap.Round(time.Microsecond))
		if heals > 0 {
			n.put(t, "first grant after a server fault", "at most %v, %d times",
				worst.Round(time.Millisecond), heals)
		}
	})
}

func (n *night) losses(t *testing.T) {
	t.Run("losses", func(t *testing.T) {
		events := 0
		for round := uint64(0); events < 100 && !t.Failed() && round < 10; round++ {
			more, short := losses(t, n.sys, *seed+round, 60*time.Second, 1)
			must(t, short)
			events += more
		}
		must(t, atLeast(events, 100, "pauses and partitions in which a lease was lost"))
		n.put(t, "pauses and partitions, loss reported in time", "%d of %d", events, events)
	})
}

func (n *night) takeover(t *testing.T) {
	if n.sys.Memory {
		return // the store ends with its process
	}
	t.Run("takeover", func(t *testing.T) {
		const kills = 20
		var times int
		var worst time.Duration
		for round := uint64(0); times < kills && !t.Failed() && round < 6; round++ {
			more, _, longest, short := takeover(t, n.sys, *seed+round, 90*time.Second)
			must(t, short)
			times, worst = times+more, max(worst, longest)
		}
		must(t, atLeast(times, kills, "takeovers"))
		n.put(t, "from the kill of a holder to the next grant", "at most %v, %d times, TTL %v",
			worst.Round(time.Millisecond), times, max(ttl, n.sys.Least))
	})
}

func (n *night) histories(t *testing.T) {
	t.Run("histories", func(t *testing.T) {
		defer heavy()()
		var total, grants, over, operations, unknown, unexplained int
		for round := range uint64(4) {
			v, more, short := histories(t, n.sys, *seed+round, 60*time.Second, 300)
			must(t, short)
			total, grants, over = total+more, grants+v.Grants, over+v.OverHold
			operations, unknown, unexplained = operations+v.Operations, unknown+v.Unknown,
				unexplained+v.Unexplained
		}
		n.put(t, "histories of 300 operations and more",
			"%d, %d grants, %d faults during a hold, 0 violations, 0 undecided; %d of %d outcomes unknown, %d of them without a fault",
			total, grants, over, unknown, operations, unexplained)
	})
}

func (n *night) counter(t *testing.T) {
	t.Run("counter", func(t *testing.T) {
		defer heavy()()
		v, short := counter(t, n.sys, *seed, 10_000, 1, 5*time.Minute)
		must(t, short)
		n.put(t, "fenced updates lost", "0 of %d; without a fence %d", v.Fenced, v.LostPlain)
	})
}

func (n *night) cycles(t *testing.T) {
	t.Run("cycles", func(t *testing.T) {
		defer heavy()()
		released, givenUp, short := cycles(t, n.sys, *seed, 10_000, 5*time.Minute)
		must(t, short)
		n.put(t, "left behind after many releases and cancelled waits",
			"nothing after %d releases and %d cancelled waits", released, givenUp)
	})
}

// TestSoak is a long run of one store, or of all: make soak STORE=redis TIME=30m SEED=1.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("it needs the flag -soak: make soak STORE=redis TIME=30m SEED=1")
	}
	t.Parallel()
	eachStore(t, chosen(t, *only), func(t *testing.T, sys *faults.System) {
		r := play(t, sys, faults.Options{Time: *soak, Processes: 5, Keys: 3, Play: "chaos",
			Progress: progress(sys.Name, "soak")})
		least := int(*soak / time.Second)
		n, worst, errs := r.Heals()
		v, short := check(t, r, history.Minimums{Grants: 10 * least, ContendedWaits: 2 * least,
			FaultsOverHold: least / 6}, errs...)
		must(t, short)
		put := func(name, format string, args ...any) {
			write(t, figure{
				Store: sys.Name, Figure: fmt.Sprintf("soak of %v%s", *soak, name),
				Value: fmt.Sprintf(format, args...), Seed: *seed,
				Command: fmt.Sprintf("make soak STORE=%s TIME=%v SEED=%d", sys.Name, *soak, *seed),
			})
		}
		put("", "%d grants, %d faults over a hold, 0 violations, overlap %v", v.Grants, v.OverHold,
			v.Overlap.Round(time.Microsecond))
		put(": fenced updates lost", "0 of %d; without a fence %d", v.Fenced, v.LostPlain)
		if n > 0 {
			put(": first grant after a server's trouble", "%v at most, %d times",
				worst.Round(time.Millisecond), n)
		}
	})
}
