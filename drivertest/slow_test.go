package drivertest

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// realUnit is the TTL of the rules in real time.
const realUnit = 600 * time.Millisecond

// realEnv opens stores as if in real time. The rules still run in a bubble, where every delay is
// exact.
func realEnv(bend func(b *bent)) Env {
	env := bentEnv(bend)
	env.Virtual = false
	return env
}

// delayed makes each call of a store take time on its way there and on its way back.
func delayed(bend func(b *bent), there, back func() time.Duration) func(b *bent) {
	return func(b *bent) {
		if bend != nil {
			bend(b)
		}
		acquire, renew, release, show := b.acquire, b.renew, b.release, b.show
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			time.Sleep(there())
			defer func() { time.Sleep(back()) }()
			if acquire != nil {
				return acquire(ctx, r)
			}
			return b.mem.Acquire(ctx, r)
		}
		b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
			time.Sleep(there())
			defer func() { time.Sleep(back()) }()
			if renew != nil {
				return renew(ctx, r)
			}
			return b.mem.Renew(ctx, r)
		}
		b.release = func(ctx context.Context, id driver.ID) error {
			time.Sleep(there())
			defer func() { time.Sleep(back()) }()
			if release != nil {
				return release(ctx, id)
			}
			return b.mem.Release(ctx, id)
		}
		b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
			time.Sleep(there())
			defer func() { time.Sleep(back()) }()
			if show != nil {
				return show(ctx, key)
			}
			return b.mem.Show(ctx, key)
		}
	}
}

// slowLooks makes each List and Break of a store take time, and no other call.
func slowLooks(most time.Duration) func(b *bent) {
	return func(b *bent) {
		b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
			time.Sleep(most)
			return b.mem.List(ctx, prefix)
		}
		b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
			time.Sleep(most)
			return b.mem.Break(ctx, key, upTo, reason)
		}
	}
}

// inBubble checks a rule in a bubble.
func (r rule) inBubble(t *testing.T, env Env) (v verdict) {
	synctest.Test(t, func(t *testing.T) { v = r.try(t, env) })
	return v
}

// stutter returns delays of different lengths, up to most.
func stutter(most time.Duration) func() time.Duration {
	var n atomic.Int64
	return func() time.Duration {
		i := n.Add(1)
		return most * time.Duration(i*i%7) / 6
	}
}

// TestRules_slow shows that a correct store never breaks a rule because the store or the machine is
// slow.
func TestRules_slow(t *testing.T) {
	for _, most := range []time.Duration{0, realUnit / 10, realUnit / 3, realUnit, 4 * realUnit} {
		t.Run(most.String(), func(t *testing.T) {
			for _, r := range rules() {
				for way, bend := range map[string]func(b *bent){
					"there":     delayed(nil, stutter(most), stutter(0)),
					"back":      delayed(nil, stutter(0), stutter(most)),
					"of a look": slowLooks(most),
				} {
					v := r.inBubble(t, realEnv(bend))
					if v.failure != "" {
						t.Errorf("slow on the way %s: %s", way, v.failure)
					}
					if v.late != "" && most <= realUnit/10 {
						t.Errorf("slow on the way %s: %s has no verdict: %s", way, r.name, v.late)
					}
				}
			}
		})
	}
}

// TestRules_late shows that a rule has no verdict if a claim that it relies on may have ended.
func TestRules_late(t *testing.T) {
	for _, r := range rules() {
		if r.name != "again" {
			continue
		}
		v := r.inBubble(t, realEnv(delayed(nil, stutter(0), func() time.Duration { return 2 * realUnit })))
		if v.late == "" || v.failure != "" {
			t.Errorf("the verdict is %+v, want late", v)
		}
	}
}

// TestRules_slow_catch_faults shows that the rules find the same faults in real time, with slow
// calls, as in virtual time.
func TestRules_slow_catch_faults(t *testing.T) {
	forgiven := []string{ // in real time
		"claims end late",
		"renew adds",
		"retry is rounded down", // to nothing
		"Floor is bounded by the last fence alone", // no hours pass
		"fences are forgotten with an idle key",    // no minutes pass
	}
	byName := map[string]rule{}
	for _, r := range rules() {
		byName[r.name] = r
	}
	for _, most := range []time.Duration{0, realUnit / 20} {
		for _, f := range faults() {
			// With slow calls the exact end of a claim is not known, and two callers look at the
			// same time only by chance.
			byChance := slices.Contains([]string{
				"claims end early", "lives are cut to milliseconds", "looks, then acts",
				"a renewal looks, then acts", "Break looks, then acts", "Break compares, then acts",
				"retry is a twentieth too short", "an undo ends the grant of another store",
			}, f.name)
			if slices.Contains(forgiven, f.name) || byChance && most > 0 {
				continue
			}
			for _, name := range f.rules {
				r := byName[name]
				if r.needs&(virtual|eve) != 0 {
					continue
				}
				v := r.inBubble(t, realEnv(delayed(f.bend, stutter(most), stutter(most))))
				if !strings.Contains(v.failure, r.sentence) {
					t.Errorf("%s: the rule %q holds with calls of %v: %s", f.name, name, most, v.late)
				}
			}
		}
	}
}
