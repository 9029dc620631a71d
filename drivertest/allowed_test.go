package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// TestRun_allowed shows that stores pass that use the freedom of the contract.
func TestRun_allowed(t *testing.T) {
	for name, bend := range map[string]func(b *bent){
		"hands off at release": func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				err := b.mem.Release(ctx, id)
				b.handOff(ctx, id.Key)
				return err
			}
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				cs, err := b.mem.Break(ctx, key, upTo, reason)
				b.handOff(ctx, key)
				return cs, err
			}
		},
		"rounds up to seconds": both(
			requests(func(_ *bent, r *driver.Request) { r.TTL, r.QueueTTL = roundUp(r.TTL), roundUp(r.QueueTTL) }),
			renews(func(_ *bent, r *driver.Renewal) { r.TTL = roundUp(r.TTL) })),
		"works although ctx has ended": func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				return b.mem.Acquire(context.WithoutCancel(ctx), r)
			}
			b.release = func(ctx context.Context, id driver.ID) error {
				return b.mem.Release(context.WithoutCancel(ctx), id)
			}
		},
		"does not report Retry": answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Retry = 0 }),
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
				live[driver.Tag(r.Owner)] = false // an earlier claim of this owner has ended
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

// handOff grants the head of the queue its claim, for the remaining life of its entry, and so on
// while there is capacity.
func (b *bent) handOff(ctx context.Context, key string) {
	for _, w := range b.queue(key) {
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

// TestCompare_catches_faults shows that Compare finds by chance the faults that rules find by name.
func TestCompare_catches_faults(t *testing.T) {
	blind := []string{ // Compare never makes calls that find these
		"one more for large limits",
		"lives are rounded down", // by less than it can see
		"lives are cut to milliseconds",
		"renewals are rounded down",
		"records are rounded down",
		"QueueTTLs are rounded down",
		"long lives wrap around",
		"long lives are cut to ten years",
		"long QueueTTLs wrap around",
		"a day is the longest life",
		"the longest TTL is too long",
		"the longest TTL is not enforced",
		"QueueTTLs are bounded like TTLs",
		"a restart forgets",
		"an owner is the same on all keys",
		"an owner that ended is refused",
		"fences are forgotten with an idle key",
		"fences run out unseen",
		"no fence is a refusal",
		"Floor too far is cut",
		"Floor too far is refused and kept",
		"Floor too far is refused where another owner holds the key",
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
		"Show does not copy",
		"blockers are not copied",
		"owners are in errors",
		"the prefix is a pattern",
		"the prefix is folded",
		"Break ignores the bound",
		"Break spares the fence of the bound",
		"Break gives another reason",
		"RenewAll answers the first of two equal renewals only",
		"RenewAll keeps nothing",
		"RenewAll omits some", // of many more
	}
	for _, f := range slices.Concat(capacityFaults(), lifeFaults(), againFaults(), fenceFaults(),
		floorFaults(), queueFaults(), hintFaults(), valueFaults(), showFaults(), heldFaults()) {
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
