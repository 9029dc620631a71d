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

// realUnit is the TTL of the laws in real time.
const realUnit = 600 * time.Millisecond

// realEnv opens stores as if in real time. The laws that it is given to run in a bubble all the
// same, where every delay is exact.
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
		b.breaks = func(ctx context.Context, key, reason string) ([]driver.Claim, error) {
			time.Sleep(most)
			return b.mem.Break(ctx, key, reason)
		}
	}
}

// inBubble asks for a law.
func (l law) inBubble(t *testing.T, env Env) (v verdict) {
	synctest.Test(t, func(t *testing.T) { v = l.try(t, env) })
	return v
}

// stutter returns delays that are mostly short and now and then as long as most.
func stutter(most time.Duration) func() time.Duration {
	var n atomic.Int64
	return func() time.Duration {
		i := n.Add(1)
		return most * time.Duration(i*i%7) / 6
	}
}

// TestLaws_slow shows that a store that keeps the laws is never found to break one because it,
// or the machine, is slow.
func TestLaws_slow(t *testing.T) {
	for _, most := range []time.Duration{0, realUnit / 10, realUnit / 3, realUnit, 4 * realUnit} {
		t.Run(most.String(), func(t *testing.T) {
			for _, l := range laws() {
				for way, bend := range map[string]func(b *bent){
					"there":     delayed(nil, stutter(most), stutter(0)),
					"back":      delayed(nil, stutter(0), stutter(most)),
					"of a look": slowLooks(most),
				} {
					v := l.inBubble(t, realEnv(bend))
					if v.failure != "" {
						t.Errorf("slow on the way %s: %s", way, v.failure)
					}
					if v.late != "" && most <= realUnit/10 {
						t.Errorf("slow on the way %s: %s was not judged: %s", way, l.name, v.late)
					}
				}
			}
		})
	}
}

// TestLaws_late shows that a law gives no verdict on what it relied on for too long.
func TestLaws_late(t *testing.T) {
	for _, l := range laws() {
		if l.name != "again" {
			continue
		}
		v := l.inBubble(t, realEnv(delayed(nil, stutter(0), func() time.Duration { return 2 * realUnit })))
		if v.late == "" || v.failure != "" {
			t.Errorf("the verdict is %+v, want late", v)
		}
	}
}

// TestLaws_slow_catch_faults shows that the laws find in real time, with calls that take a while,
// what they find in virtual time.
func TestLaws_slow_catch_faults(t *testing.T) {
	forgiven := []string{ // in real time
		"claims end late",
		"renew adds",
		"retry is rounded down", // to nothing
		"Floor is bounded by the last fence alone", // no hours pass
	}
	byName := map[string]law{}
	for _, l := range laws() {
		byName[l.name] = l
	}
	for _, most := range []time.Duration{0, realUnit / 20} {
		for _, f := range faults() {
			// With calls that take a while nobody can tell just when a claim ended, and whether two
			// callers look at one time is left to chance.
			byChance := slices.Contains([]string{
				"claims end early", "lives are cut to milliseconds", "looks, then acts", "a renewal looks, then acts", "Break looks, then acts",
				"retry is a twentieth too short",
			}, f.name)
			if slices.Contains(forgiven, f.name) || byChance && most > 0 {
				continue
			}
			for _, name := range f.laws {
				l := byName[name]
				if l.needs&(virtual|eve) != 0 {
					continue
				}
				v := l.inBubble(t, realEnv(delayed(f.bend, stutter(most), stutter(most))))
				if !strings.Contains(v.failure, l.sentence) {
					t.Errorf("%s: the law %q holds with calls of %v: %s", f.name, name, most, v.late)
				}
			}
		}
	}
}
