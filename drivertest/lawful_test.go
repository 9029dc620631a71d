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
			asks(func(_ *bent, r *driver.Request) { r.TTL, r.QueueTTL = roundUp(r.TTL), roundUp(r.QueueTTL) }),
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
			numbered(func(*bent, driver.Request) uint64 { revision++; return revision << 7 })(b)
		},
		"live slots share a fence": func(b *bent) {
			b.features = func(f driver.Features) driver.Features { f.Floor = false; return f }
			type fences struct {
				given uint64            // the highest
				ended uint64            // the highest of those that have ended
				live  map[string]uint64 // by the owner's tag
			}
			keys := map[string]*fences{}
			numbered(func(b *bent, r driver.Request) uint64 {
				k := keys[r.Key]
				if k == nil {
					k = &fences{live: map[string]uint64{}}
					keys[r.Key] = k
				}
				live := map[string]bool{}
				for _, c := range b.held(r.Key) {
					live[c.Owner] = true
				}
				live[driver.Tag(r.Owner)] = false // what it may have had before has ended
				for tag, f := range k.live {
					if !live[tag] {
						k.ended = max(k.ended, f)
						delete(k.live, tag)
					}
				}
				f := k.ended + driver.Span
				if r.Weight == driver.Whole {
					f = k.given + driver.Span
				}
				k.given, k.live[driver.Tag(r.Owner)] = max(k.given, f), f
				return f
			})(b)
		},
		"keeps values itself, and copies them": owned(copying{true, true, true, true}),
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
		w.TTL, w.QueueTTL = w.QueueTTL, 0
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
	blind := []string{ // what Compare never asks for
		"one more for large limits",
		"lives are rounded down", // by less than it can tell
		"lives are cut to milliseconds",
		"renewals are rounded down",
		"records are rounded down",
		"places are rounded down",
		"long lives wrap around",
		"long places wrap around",
		"a day is the longest life",
		"the longest TTL is too long",
		"the longest TTL is not held to",
		"places are bounded as TTLs are",
		"a restart forgets",
		"an owner is the same on all keys",
		"an owner that ended is refused",
		"fences are forgotten with an idle key",
		"fences run out unseen",
		"no fence is a refusal",
		"Floor too far is cut",
		"Floor too far is refused and kept",
		"Floor too far is refused where the key is taken",
		"Floor too far is ignored where the claim is held",
		"Floor is bounded by the clock alone",
		"Floor is bounded by the last fence alone",
		"Floor needs a last fence",
		"retry is rounded down",
		"retry is a twentieth too short",
		"values are cut at NUL",
		"values are made up",
		"requests are not copied",
		"renewals are not copied",
		"Show gives away the store's own",
		"blockers give away the store's own",
		"owners are in errors",
		"the prefix is a pattern",
		"the prefix is folded",
		"Break tells another reason",
		"RenewAll keeps nothing",
		"RenewAll leaves some out", // of many more
	}
	for _, f := range slices.Concat(roomFaults(), lifeFaults(), againFaults(), fenceFaults(), floorFaults(), lineFaults(), hintFaults(), valueFaults(), tellFaults(), heldFaults()) {
		if slices.Contains(blind, f.name) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			env := bentEnv(f.bend)
			gen := program(env.features(t))
			for seed := range 500 {
				if difference, _ := env.compare(t, gen.Example(seed)); difference != "" {
					return
				}
			}
			t.Error("no difference was found")
		})
	}
}
