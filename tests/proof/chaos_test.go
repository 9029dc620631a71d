package proof_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/tests/internal/faults"
)

// onEach runs a test on every store, or on that of the flag -store, if the flag -proof is set.
func onEach(t *testing.T, test func(t *testing.T, sys *faults.System)) {
	if !*proof {
		t.Skip("it takes minutes, and needs the flag -proof: make proof")
	}
	all := chosen(t, *only)
	if *only == "" {
		all = slices.DeleteFunc(all, func(sys *faults.System) bool { return sys.Long })
	}
	if *half >= 0 {
		all = halfOf(all, len(t.Name())+*half)
	}
	eachStore(t, all, test)
}

// halfOf returns every second store, from the first or the second on.
func halfOf(all []*faults.System, from int) (some []*faults.System) {
	for i, sys := range all {
		if (i+from)%2 == 0 {
			some = append(some, sys)
		}
	}
	return some
}

// Two halves are all stores, and no store is in both.
func TestHalfOf(t *testing.T) {
	all := faults.Systems()
	even, odd := halfOf(all, 4), halfOf(all, 7)
	if len(even)+len(odd) != len(all) || even[0] != all[0] || odd[0] != all[1] {
		t.Errorf("%d and %d of %d stores", len(even), len(odd), len(all))
	}
}

func eachStore(t *testing.T, systems []*faults.System, test func(t *testing.T, sys *faults.System)) {
	for _, sys := range systems {
		t.Run(sys.Name, func(t *testing.T) {
			t.Parallel()
			test(t, sys)
		})
	}
}

// play starts a system, and lets processes play on it while it is broken. Stores without the needed
// features are skipped.
func play(t *testing.T, sys *faults.System, o faults.Options, needs ...func(driver.Features) bool) *faults.Run {
	t.Helper()
	o.Seed, o.TTL = cmp.Or(o.Seed, *seed), max(ttl, sys.Least)
	env := sys.Start(t, o)
	f, err := env.Features(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, can := range needs {
		if !can(f) {
			t.Skip("the store lacks a feature that this kind needs")
		}
	}
	return env.Run(t, o)
}

// check checks a run, and includes the errors that were found in it already. It returns
// faults.ErrTooLittle separately.
func check(t *testing.T, r *faults.Run, min history.Minimums, found ...error) (v *faults.Verdict, short error) {
	t.Helper()
	v, err := r.Check(min, found...)
	t.Log(v)
	if errors.Is(err, faults.ErrTooLittle) {
		return v, err
	}
	if err != nil {
		t.Error(err)
	}
	return v, nil
}

// enough runs a test, and once or twice more if too little happened in it, for longer each time: a
// machine may be busy with other work. The test itself reports violations, and they are not
// retried.
func enough(t *testing.T, test func(seed uint64, longer time.Duration) (short error)) {
	t.Helper()
	const tries = 3
	for try := range uint64(tries) {
		short := test(*seed+1000*try, 1<<try)
		switch {
		case short == nil || t.Failed():
			return
		case try+1 == tries:
			t.Error(short)
		default:
			t.Logf("once more: %v", short)
		}
	}
}

// atLeast returns an error if there was too little of something.
func atLeast(got, least int, what string) error {
	if got < least {
		return fmt.Errorf("%w: %d %s, want %d", faults.ErrTooLittle, got, what, least)
	}
	return nil
}

// Twenty seconds of each store: processes are stopped and killed, servers and the routes to them
// are broken, and no promise is.
func TestChaos(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		enough(t, func(seed uint64, longer time.Duration) error {
			r := play(t, sys, faults.Options{Seed: seed, Time: longer * 20 * time.Second, Processes: 4,
				Keys: 3, Play: "chaos"})
			n, worst, errs := r.Heals()
			_, short := check(t, r, history.Minimums{Grants: 200, ContendedWaits: 50,
				FaultsOverHold: 5}, errs...)
			t.Logf("the first grant came %v at most after a server's trouble, %d times", worst, n)
			return short
		})
	})
}

// Lock servers are killed and started again every second or two, and no promise is broken.
func TestServerKills(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		if !strings.HasPrefix(sys.Name, "remote") {
			t.Skip("only lock servers keep nothing")
		}
		defer light()()
		enough(t, func(seed uint64, longer time.Duration) error {
			r := play(t, sys, faults.Options{Seed: seed, Time: longer * 20 * time.Second, Processes: 4, Keys: 3, Play: "chaos",
				NoKills: true, NoPauses: true, Only: []faults.Kind{faults.ServerKilled}})
			n, worst, errs := r.Heals()
			v, short := check(t, r, history.Minimums{Grants: 200, ContendedWaits: 50, FaultsOverHold: 5}, errs...)
			t.Logf("%d kills, %d losses; the first grant came %v at most after one", n, v.Losses, worst)
			return short
		})
	})
}

// Fifty keys side by side, each with five clients, and each a separate history.
func TestHistories(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer heavy()()
		enough(t, func(seed uint64, longer time.Duration) error {
			_, _, short := histories(t, sys, seed, longer*12*time.Second, 30)
			return short
		})
	})
}

// keys is the number of histories at a time.
const keys = 50

func histories(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration, least int) (v *faults.Verdict, n int, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 5, Keys: keys, Play: "histories", Promised: true, Recovery: 8 * ttl, Rate: 150,
		Progress: progress(sys.Name, "histories"),
	})
	ops := map[string]int{}
	for _, op := range r.History.Ops {
		if op.Kind != history.Fault {
			ops[op.Key]++
		}
	}
	shortest := slices.Min(append(slices.Collect(maps.Values(ops)), math.MaxInt))
	v, short = check(t, r, history.Minimums{Grants: least * keys / 10, ContendedWaits: keys,
		FaultsOverHold: 3},
		atLeast(len(ops), keys, "histories"), atLeast(shortest, least, "operations of a history"))
	t.Logf("%d histories of at least %d operations", len(ops), shortest)
	return v, len(ops), short
}

// Holders that are stopped between reading and writing come too late. A counter that compares
// fences loses no update that it acknowledged. A counter that does not compare them loses some.
func TestCounter(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer heavy()()
		enough(t, func(seed uint64, longer time.Duration) error {
			v, short := counter(t, sys, seed, 500, 0, longer*25*time.Second)
			t.Logf("%d fenced updates, 0 lost; %d plain ones lost", v.Fenced, v.LostPlain)
			return short
		})
	})
}

// Locks that are acquired and released, or waited for and given up, again and again leave nothing
// behind: no goroutine and no file in the processes, no connection, claim or queue entry in the
// store.
func TestCycles(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer heavy()()
		enough(t, func(seed uint64, longer time.Duration) error {
			_, _, short := cycles(t, sys, seed, 500, longer*20*time.Second)
			return short
		})
	})
}

func cycles(t *testing.T, sys *faults.System, seed uint64, least int, lasts time.Duration) (released, givenUp int, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 3, Keys: 6, Play: "cycles", Calm: true, Enough: least, NoModel: true, NoKills: true,
		Progress: progress(sys.Name, "cycles"), Recovery: 2 * ttl,
	})
	for _, op := range r.History.Ops {
		if op.Kind == history.Acquire && op.Outcome != history.Granted {
			givenUp++
		}
	}
	v, short := check(t, r, history.Minimums{Grants: least, ContendedWaits: 20},
		atLeast(givenUp, least/20, "waits that were given up"))
	t.Logf("%d locks acquired and released, %d given up", v.Grants, givenUp)
	return v.Grants, givenUp, short
}

// counter increments until there are the given number of fenced updates. At least lost of the plain
// updates must be lost.
func counter(t *testing.T, sys *faults.System, seed uint64, updates, lost int, lasts time.Duration) (v *faults.Verdict, short error) {
	t.Helper()
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 4, Keys: 12, Play: "counter", Calm: !sys.Memory, Enough: updates * 21 / 20, NoModel: true,
		Progress: progress(sys.Name, "counter"), NoKills: true, Recovery: 4 * ttl,
	})
	fenced := 0
	for _, op := range r.History.Ops {
		if op.Kind == history.Write && op.Outcome == history.Done {
			fenced++
		}
	}
	plain := history.Check(r.History, history.Rules{}).LostPlain
	return check(t, r, history.Minimums{Grants: updates, ContendedWaits: 20, FaultsOverHold: 1},
		atLeast(fenced, updates, "fenced updates"), atLeast(plain, lost,
			"updates that were lost without a fence: otherwise the run shows nothing"))
}
