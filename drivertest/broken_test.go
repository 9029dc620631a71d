package drivertest

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/distlock/distlock/driver"
)

// A fault is a broken store, and the rules that must find it.
type fault struct {
	name  string
	rules []string
	bend  func(b *bent)
}

// Most faults have one of these shapes.

type (
	requestBend = func(b *bent, r *driver.Request)
	resultBend  = func(b *bent, r driver.Request, res *driver.Result)
)

// requests bends the requests of Acquire.
func requests(f requestBend) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			f(b, &r)
			return b.mem.Acquire(ctx, r)
		}
	}
}

// answers bends the results of Acquire.
func answers(f resultBend) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			res, err := b.mem.Acquire(ctx, r)
			if err == nil {
				f(b, r, &res)
			}
			return res, err
		}
	}
}

// renews bends the renewals.
func renews(f func(b *bent, r *driver.Renewal)) func(b *bent) {
	return func(b *bent) {
		b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
			f(b, &r)
			return b.mem.Renew(ctx, r)
		}
	}
}

// both bends a store in several ways.
func both(bends ...func(b *bent)) func(b *bent) {
	return func(b *bent) {
		for _, bend := range bends {
			bend(b)
		}
	}
}

// named bends the keys and owners of all calls.
func named(f func(driver.ID) driver.ID) func(b *bent) {
	return both(
		requests(func(_ *bent, r *driver.Request) { r.ID = f(r.ID) }),
		renews(func(_ *bent, r *driver.Renewal) { r.ID = f(r.ID) }),
		func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error { return b.mem.Release(ctx, f(id)) }
			b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
				return b.mem.Show(ctx, f(driver.ID{Key: key}).Key)
			}
		})
}

func keyed(f func(string) string) func(b *bent) {
	return named(func(id driver.ID) driver.ID { return driver.ID{Key: f(id.Key), Owner: id.Owner} })
}

// shown bends the results of Show.
func shown(f func(b *bent, cs []driver.Claim) []driver.Claim) func(b *bent) {
	return func(b *bent) {
		b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
			cs, err := b.mem.Show(ctx, key)
			return f(b, cs), err
		}
	}
}

// numbered replaces the fences by those that next returns, wherever they are visible.
func numbered(next func(b *bent, r driver.Request) uint64) func(b *bent) {
	return func(b *bent) {
		var mu sync.Mutex
		given := map[string]uint64{} // by the owner's tag
		renumber := func(_ *bent, cs []driver.Claim) []driver.Claim {
			mu.Lock()
			defer mu.Unlock()
			for i, c := range cs {
				if !c.Waiting && c.Key != "" {
					cs[i].Fence = given[c.Owner]
				}
			}
			return cs
		}
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			b.step.Lock() // so that the result of b.on stays true
			defer b.step.Unlock()
			was, live := b.on(r.ID)
			res, err := b.mem.Acquire(ctx, r)
			if tag := driver.Tag(r.Owner); res.Granted {
				mu.Lock()
				if !live || was.Waiting {
					given[tag] = next(b, r)
				}
				res.Fence = given[tag]
				mu.Unlock()
			}
			res.Blocker = renumber(b, []driver.Claim{res.Blocker})[0]
			return res, err
		}
		shown(renumber)(b)
		b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
			return func(yield func(driver.Claim, error) bool) {
				for c, err := range b.mem.List(ctx, prefix) {
					if !yield(renumber(b, []driver.Claim{c})[0], err) {
						return
					}
				}
			}
		}
		b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
			b.step.Lock() // the bound is one of the new fences, and store/mem knows the old ones
			defer b.step.Unlock()
			var bound uint64
			held := b.held(key)
			for i, c := range renumber(b, b.held(key)) {
				if c.Fence <= upTo {
					bound = max(bound, held[i].Fence)
				}
			}
			if upTo > 0 && bound == 0 {
				return nil, nil
			}
			cs, err := b.mem.Break(ctx, key, bound, reason)
			return renumber(b, cs), err
		}
	}
}

// overtaking grants some requests as if there were no queue.
func overtaking(who func(r driver.Request) bool) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			if r.Validate(b.Features()) == nil && who(r) {
				return b.unqueued(ctx, r)
			}
			return b.mem.Acquire(ctx, r)
		}
	}
}

// refuses refuses an owner that already holds the claim.
func refuses(when func(b *bent, r driver.Request, res driver.Result) bool) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			c, ok := b.on(r.ID)
			res, err := b.mem.Acquire(ctx, r)
			if ok && !c.Waiting && when(b, r, res) {
				res = driver.Result{Used: res.Used, Behind: res.Behind, Blocker: c}
			}
			return res, err
		}
	}
}

// faults returns broken stores. At least one of them breaks each rule.
func faults() []fault {
	return slices.Concat(capacityFaults(), lifeFaults(), againFaults(), fenceFaults(), floorFaults(), queueFaults(), hintFaults(),
		wakeFaults(), nameFaults(), valueFaults(), showFaults(), heldFaults(), manyFaults(),
		endFaults(), sizeFaults())
}
