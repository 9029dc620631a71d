package proof_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/faults"
	"github.com/distlock/distlock/internal/history"
)

// onEach runs a test on every store, if it is asked for.
func onEach(t *testing.T, test func(t *testing.T, sys *faults.System)) {
	if !*proof {
		t.Skip("it takes minutes, and is asked for with -proof: make proof")
	}
	eachStore(t, test)
}

func eachStore(t *testing.T, test func(t *testing.T, sys *faults.System)) {
	for _, sys := range faults.Systems() {
		t.Run(sys.Name, func(t *testing.T) {
			t.Parallel()
			test(t, sys)
		})
	}
}

// play starts a system, and lets processes play on it while it is broken. Stores that cannot do what is needed are skipped.
func play(t *testing.T, sys *faults.System, o faults.Options, needs ...func(driver.Features) bool) *faults.Run {
	t.Helper()
	o.Seed, o.TTL = cmp.Or(o.Seed, *seed), ttl
	env := sys.Start(t, o)
	f, err := env.Features(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, can := range needs {
		if !can(f) {
			t.Skip("the store does not declare what this kind needs")
		}
	}
	return env.Run(t, o)
}

// judge judges the grants of a run.
func judge(t *testing.T, r *faults.Run, min history.Minimums) *faults.Verdict {
	t.Helper()
	v, err := r.Judge(min)
	t.Log(v)
	if err != nil {
		t.Error(err)
	}
	return v
}

// Twenty seconds of each store: processes are stopped and killed, servers and the ways to them are broken, and no promise is.
func TestChaos(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer light()()
		r := play(t, sys, faults.Options{Time: 20 * time.Second, Processes: 4, Keys: 3, Play: "chaos"})
		judge(t, r, history.Minimums{Grants: 200, ContendedWaits: 50, FaultsOverHold: 5})
		n, worst, errs := r.Heals()
		all(t, errs)
		t.Logf("the first grant came %v at most after a server's trouble, %d times", worst, n)
	})
}

// Fifty keys side by side, each with five clients, and each a history of its own.
func TestHistories(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer heavy()()
		histories(t, sys, *seed, 12*time.Second, 30)
	})
}

// keys is how many histories there are at a time.
const keys = 50

func histories(t *testing.T, sys *faults.System, seed uint64, lasts time.Duration, least int) (*faults.Verdict, int) {
	r := play(t, sys, faults.Options{
		Seed: seed, Time: lasts, Processes: 5, Keys: keys, Play: "histories", Promised: true, Rest: 8 * ttl, Rate: 150,
		Progress: progress(sys.Name, "histories"),
	})
	v := judge(t, r, history.Minimums{Grants: least * keys / 10, ContendedWaits: keys, FaultsOverHold: 3})
	ops := map[string]int{}
	for _, op := range r.History.Ops {
		if op.Kind != history.Fault {
			ops[op.Key]++
		}
	}
	if len(ops) != keys {
		t.Fatalf("%d histories, want %d", len(ops), keys)
	}
	shortest := slices.Min(slices.Collect(maps.Values(ops)))
	if t.Logf("%d histories of at least %d operations", len(ops), shortest); shortest < least {
		t.Errorf("a history has %d operations, want %d", shortest, least)
	}
	return v, len(ops)
}

// Holders that are stopped between reading and writing come too late: what compares fences loses no update that it acknowledged. What
// does not compare them loses some.
func TestCounter(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, sys *faults.System) {
		defer heavy()()
		v := counter(t, sys, 500, 25*time.Second)
		t.Logf("%d fenced updates, 0 lost; %d plain ones lost", v.Fenced, v.LostPlain)
	})
}

func counter(t *testing.T, sys *faults.System, updates int, lasts time.Duration) *faults.Verdict {
	r := play(t, sys, faults.Options{
		Time: lasts, Processes: 4, Keys: 12, Play: "counter", Calm: !sys.Memory, Enough: updates * 21 / 20, NoModel: true,
		Progress: progress(sys.Name, "counter"), Spare: true, Rest: 4 * ttl,
	})
	v := judge(t, r, history.Minimums{Grants: updates, ContendedWaits: 20, FaultsOverHold: 1})
	if v.Fenced < updates {
		t.Errorf("%d fenced updates, want %d", v.Fenced, updates)
	}
	return v
}
