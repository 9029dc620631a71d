package redis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// The units of the model are µs, as those of fences.
const (
	modelMS     = 1000
	modelSecond = 1000 * modelMS
	modelMinute = 60 * modelSecond
)

// A modelKey is a Redis key with a number.
type modelKey struct {
	value int64
	exact bool  // a floor with "c"
	ends  int64 // 0: never
}

// A fenceModel is the part of a server that fences depend on: its clock, the memory of each name
// and the floor.
type fenceModel struct {
	now  int64
	keys map[string]modelKey

	// miniredis counts how long a key has left. A real server has a time at which the key ends,
	// which a clock that is set back postpones.
	counts bool
}

func newFenceModel() *fenceModel {
	return &fenceModel{now: 1_789_000_000 * modelSecond, keys: map[string]modelKey{}}
}

func (m *fenceModel) get(name string) (modelKey, bool) {
	k, ok := m.keys[name]
	if ok && k.ends > 0 && (m.counts && m.now >= k.ends || m.now/modelMS > k.ends/modelMS) {
		delete(m.keys, name)
		return modelKey{}, false
	}
	return k, ok
}

// step moves the clock.
func (m *fenceModel) step(by int64) {
	m.now += by
	if by > 0 {
		for name := range m.keys {
			if m.counts {
				m.get(name)
			}
		}
		return
	}
	for name, k := range m.keys {
		if m.counts && k.ends > 0 {
			k.ends += by
			m.keys[name] = k
		}
	}
}

// floored is the rule of floor.lua.
func (m *fenceModel) floored(last, fence int64) int64 {
	const ahead, lag, slack = 3 * modelSecond, modelSecond, 15 * modelSecond
	if last > 0 && fence <= m.now+ahead && fence-fence%(10*modelSecond) <= last {
		return fence
	}
	floor, _ := m.get("floor")
	behind := m.now < floor.value
	exact := behind && floor.exact
	if exact {
		floor.value -= slack // the sums below add it
	}
	if behind && last == 0 {
		above := max(fence, floor.value+slack+driver.Span)
		m.keys["floor"] = modelKey{value: above, exact: true}
		return above
	}
	seen, most := m.now, floor.value+lag
	if exact || fence > m.now+ahead {
		seen = fence
	}
	if exact {
		most = floor.value + slack
	}
	if seen > most {
		m.keys["floor"] = modelKey{value: seen, exact: exact}
	}
	return fence
}

// grant is the rule of acquire.lua: a memory for each name, and the floor for names without one.
func (m *fenceModel) grant(name string) int64 {
	memory, known := m.get("memory " + name)
	fence := m.now
	if known {
		fence = max(memory.value+driver.Span, m.now)
	}
	fence = m.floored(memory.value, fence)
	ends := m.now + (600_000+(max(0, fence-m.now)+modelMS-1)/modelMS)*modelMS
	m.keys["memory "+name] = modelKey{value: fence, ends: ends}
	return fence
}

// forgetful is a rule that is not built: one floor for all names, which follows the clock every ten
// seconds, instead of a memory for each name.
func (m *fenceModel) forgetful(string) int64 {
	floor, _ := m.get("floor")
	fence := max(m.now, floor.value)
	switch {
	case m.now-floor.value >= 10*modelSecond:
		m.keys["floor"] = modelKey{value: m.now}
	case m.now < floor.value:
		m.keys["floor"] = modelKey{value: floor.value + 10*modelSecond}
	}
	return fence
}

// between returns a random number from low to high.
func between64(r *rand.Rand, low, high int64) int64 { return low + r.Int64N(high-low+1) }

// modelFaults are what may happen to the clock and the data of a server.
var modelFaults = map[string]func(r *rand.Rand, m *fenceModel){
	"forward": func(r *rand.Rand, m *fenceModel) {
		m.step([]int64{between64(r, modelMS, 10*modelSecond), between64(r, modelMinute, 120*modelMinute)}[r.IntN(2)])
	},
	"back by ms":      func(r *rand.Rand, m *fenceModel) { m.step(-between64(r, 1, 500*modelMS)) },
	"back by µs":      func(r *rand.Rand, m *fenceModel) { m.step(-between64(r, 1, 5*modelMS)) },
	"back by seconds": func(r *rand.Rand, m *fenceModel) { m.step(-between64(r, 500*modelMS, 9*modelSecond)) },
	"back by minutes": func(r *rand.Rand, m *fenceModel) { m.step(-between64(r, 10*modelSecond, 9*modelMinute)) },
	"back by hours":   func(r *rand.Rand, m *fenceModel) { m.step(-between64(r, 10*modelMinute, 180*modelMinute)) },
	// nothing is lost, and the clock of the new primary is behind
	"planned failover": func(r *rand.Rand, m *fenceModel) { m.step(between64(r, 0, 5*modelMS) - between64(r, 0, 100*modelMS)) },
	"restart without data": func(r *rand.Rand, m *fenceModel) {
		m.step(between64(r, 20*modelMS, 2*modelSecond))
		clear(m.keys)
	},
}

// modelStep lets time pass, and sometimes a fault happen, between two grants.
func modelStep(r *rand.Rand, m *fenceModel, faults []string) {
	switch n := r.IntN(20); {
	case n < 10:
		m.step([]int64{1, 5, 20, 60, 100, 130, 300}[r.IntN(7)])
	case n < 14:
		m.step(between64(r, 1, 3*modelSecond))
	case n < 16:
		m.step(between64(r, modelSecond, modelMinute))
	case n < 17:
		m.step(between64(r, 9*modelMinute, 30*modelMinute))
	case n < 19 && len(faults) > 0:
		modelFaults[faults[r.IntN(len(faults))]](r, m)
	}
	if r.IntN(3) == 0 { // the server deletes keys that have ended
		for name := range m.keys {
			m.get(name)
		}
	}
}

// stale counts the runs in which a fence did not rise.
func stale(runs int, faults []string, rule func(*fenceModel, string) int64) (bad int) {
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		m, high := newFenceModel(), map[string]int64{}
		for range 120 {
			modelStep(r, m, faults)
			name := fmt.Sprint(r.IntN(3))
			fence := rule(m, name)
			if fence <= high[name] {
				bad++
				break
			}
			high[name] = fence + driver.Span - 1 // hand-offs in a process use them all
		}
	}
	return bad
}

// The fences of a name rise after every step of the clock and every planned failover, for names
// that the server has forgotten too. A rule with one floor for all names breaks this.
func TestFences_model(t *testing.T) {
	t.Parallel()
	runs := 3000
	if testing.Short() {
		runs = 300
	}
	all := map[string][]string{"no fault": nil, "steps of the clock": {"forward", "back by µs", "back by ms",
		"back by seconds", "back by minutes", "back by hours", "planned failover"}}
	for fault := range modelFaults {
		all[fault] = []string{fault}
	}
	for name, faults := range all {
		if bad := stale(runs, faults, (*fenceModel).grant); bad > 0 {
			t.Errorf("%s: fences did not rise in %d of %d runs", name, bad, runs)
		}
	}
	for _, name := range []string{"back by ms", "back by minutes", "planned failover"} {
		if stale(runs, all[name], (*fenceModel).forgetful) == 0 {
			t.Errorf("%s: a rule without a memory for each name breaks nothing: this tests nothing", name)
		}
	}
}

// The scripts issue the fences of the model.
func TestFences_built(t *testing.T) {
	t.Parallel()
	runs := uint64(12)
	if testing.Short() {
		runs = 3
	}
	faults := []string{"forward", "back by µs", "back by seconds", "back by minutes", "back by hours", "planned failover"}
	for seed := range runs {
		r := rand.New(rand.NewPCG(seed, 2))
		m := newFenceModel()
		m.counts = true
		s := virtual().Open(t).(capped)
		s.server.SetTime(time.UnixMicro(m.now))
		for at := range 80 {
			modelStep(r, m, faults)
			s.server.SetTime(time.UnixMicro(m.now))
			claim := exclusive(fmt.Sprint(r.IntN(3)))
			got, want := grant(t, s, claim).Fence, m.grant(claim.Key)
			if int64(got) != want {
				t.Fatalf("run %d, grant %d: fence %d, the model has %d", seed, at, got, want)
			}
			if err := s.Release(t.Context(), claim.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}
