package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// TestRun_lawful shows that stores pass that use what the contract leaves open.
func TestRun_lawful(t *testing.T) {
	for name, bend := range map[string]func(b *bent){
		"hands on at release": func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				err := b.mem.Release(ctx, id)
				b.handOn(ctx, id.Key)
				return err
			}
			b.breaks = func(ctx context.Context, key, reason string) ([]driver.Claim, error) {
				cs, err := b.mem.Break(ctx, key, reason)
				b.handOn(ctx, key)
				return cs, err
			}
		},
		"rounds up to seconds": both(
			asks(func(_ *bent, r *driver.Request) { r.TTL, r.Place = roundUp(r.TTL), roundUp(r.Place) }),
			renews(func(_ *bent, r *driver.Renewal) { r.TTL = roundUp(r.TTL) })),
		"does as it is told though ctx is over": func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				return b.mem.Acquire(context.WithoutCancel(ctx), r)
			}
			b.release = func(ctx context.Context, id driver.ID) error {
				return b.mem.Release(context.WithoutCancel(ctx), id)
			}
		},
		"cannot tell when to try again": answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Retry = 0 }),
		"counts revisions for fences": func(b *bent) {
			b.features = func(f driver.Features) driver.Features { f.Floor = false; return f }
			var revision uint64
			fences := map[string]uint64{}
			numbered(func(_ *bent, r driver.Request) uint64 {
				revision++
				fences[driver.Tag(r.Owner)] = revision << 7
				return revision << 7
			})(b)
			renumber := func(_ *bent, cs []driver.Claim) []driver.Claim {
				for i := range cs {
					cs[i].Fence = fences[cs[i].Owner]
				}
				return cs
			}
			tells(renumber)(b)
			b.breaks = func(ctx context.Context, key, reason string) ([]driver.Claim, error) {
				cs, err := b.mem.Break(ctx, key, reason)
				return renumber(b, cs), err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, bentEnv(bend))
			Compare(t, bentEnv(bend))
		})
	}
}

// handOn grants the head of the line what it waits for, for the rest of its place, and the
// next if there is room.
func (b *bent) handOn(ctx context.Context, key string) {
	for _, w := range b.line(key) {
		w.TTL, w.Place = w.Place, 0
		if res, err := b.mem.Acquire(ctx, w); err != nil || !res.Granted {
			return
		}
	}
}

func roundUp(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 && d < time.Hour {
		return d - rest + time.Second
	}
	return d
}

// TestCompare_catches_faults shows that Compare finds by chance what laws find by name.
func TestCompare_catches_faults(t *testing.T) {
	blind := map[string]bool{ // what Compare never asks for
		"one more for large limits":             true,
		"long lives wrap around":                true,
		"long places wrap around":               true,
		"a restart forgets":                     true,
		"an owner is the same on all keys":      true,
		"Floor too far is cut":                  true,
		"Floor too far is refused and kept":     true,
		"fences are forgotten with an idle key": true,
	}
	for _, f := range slices.Concat(roomFaults(), lifeFaults(), fenceFaults(), lineFaults()) {
		if blind[f.name] {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			env := bentEnv(f.bend)
			gen := program(env.features(t))
			for seed := range 500 {
				if env.compare(t, gen.Example(seed)) != "" {
					return
				}
			}
			t.Error("no difference was found")
		})
	}
}
