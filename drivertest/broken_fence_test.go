package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// fenceFaults and floorFaults are wrong about fences.

func fenceFaults() []fault {
	type memory struct {
		last uint64
		at   time.Time
	}
	forgetful := func(after time.Duration) func(b *bent) {
		return func(b *bent) {
			keys := map[string]memory{}
			numbered(func(_ *bent, r driver.Request) uint64 {
				k := keys[r.Key]
				if time.Since(k.at) > after {
					k.last = 0
				}
				k = memory{max(k.last+driver.Span, r.Floor), time.Now()}
				keys[r.Key] = k
				return k.last
			})(b)
		}
	}
	return []fault{
		{"a fence is used again", []string{"fence", "shared fence", "race", "race for slots", "restart"}, numbered(func(*bent, driver.Request) uint64 { return 1000 })},
		{"fences count what is live", []string{"fence", "shared fence", "idle fence"}, numbered(func(b *bent, r driver.Request) uint64 {
			cs, _ := b.mem.Show(context.Background(), r.Key)
			return uint64(len(cs)) * driver.Span
		})},
		{"fences rise by one", []string{"fence", "shared fence"}, func(b *bent) {
			var n uint64
			numbered(func(*bent, driver.Request) uint64 { n++; return n })(b)
		}},
		{"fences are forgotten with an idle key", []string{"idle fence", "remembered"}, forgetful(10 * time.Minute)},
		{"fences are forgotten in a second", []string{"idle fence", "remembered"}, forgetful(time.Second)},
		{"fences of shared claims lag behind", []string{"shared fence"}, func(b *bent) {
			var last uint64
			numbered(func(_ *bent, r driver.Request) uint64 {
				if r.Weight == driver.Whole || last == 0 {
					last += driver.Span
				}
				return last
			})(b)
		}},
		{"fences exceed a float64", []string{"exclusive"}, numbered(func(*bent, driver.Request) uint64 { return driver.MaxFence })},
		{"fences run out unseen", []string{"no fences left"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if errors.Is(err, driver.ErrUnavailable) {
					return driver.Result{Granted: true, Fence: driver.MaxFence - 1, Used: r.Weight}, nil
				}
				return res, err
			}
		}},
		{"no fence is a refusal", []string{"no fences left"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if errors.Is(err, driver.ErrUnavailable) {
					return driver.Result{}, nil
				}
				return res, err
			}
		}},
	}
}

func floorFaults() []fault {
	// tooFar reports whether mem finds a Floor too far ahead. It makes no call.
	tooFar := func(b *bent, r driver.Request) bool {
		floor := r.Floor
		r.Floor = 0
		return floor > max(uint64(time.Now().UnixMicro()), b.highest(r.Key))+driver.MaxAhead && r.Validate(b.Features()) == nil
	}
	return []fault{
		{"Floor is ignored", []string{"floor"}, requests(func(_ *bent, r *driver.Request) { r.Floor = 0 })},
		{"Floor is reported and not kept", []string{"floor", "remembered"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				low := r
				low.Floor = 0
				res, err := b.mem.Acquire(ctx, low)
				if res.Granted {
					res.Fence = max(res.Fence, r.Floor)
				}
				return res, err
			}
		}},
		{"Floor too far is cut", []string{"floor too far"}, requests(func(_ *bent, r *driver.Request) {
			r.Floor = min(r.Floor, uint64(time.Now().UnixMicro())+driver.MaxAhead)
		})},
		{"Floor too far is refused and kept", []string{"floor too far"}, func(b *bent) {
			var mu sync.Mutex
			var last uint64
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				res, err := b.mem.Acquire(ctx, r)
				if err != nil && r.Floor < driver.MaxFence/2 {
					last = max(last, r.Floor)
				}
				if res.Granted {
					res.Fence = max(res.Fence, last+driver.Span)
				}
				return res, err
			}
		}},
		{"Floor too far is refused where another owner holds the key", []string{"floor too far"}, requests(func(b *bent, r *driver.Request) {
			if _, live := b.on(r.ID); tooFar(b, *r) && !live && len(b.held(r.Key)) > 0 {
				r.Floor = 0
			}
		})},
		{"Floor too far is ignored where the claim is held", []string{"floor too far"}, requests(func(b *bent, r *driver.Request) {
			if _, live := b.on(r.ID); tooFar(b, *r) && live {
				r.Floor = 0
			}
		})},
		{"Floor is bounded by the clock alone", []string{"floor ahead"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if r.Floor > uint64(time.Now().UnixMicro())+driver.MaxAhead {
					return driver.Result{}, driver.ErrInvalid
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"Floor is bounded by the last fence alone", []string{"floor ahead"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if last := b.highest(r.Key); r.Floor > last+driver.MaxAhead && last > 0 {
					return driver.Result{}, driver.ErrInvalid
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"Floor needs a last fence", []string{"floor ahead"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if r.Floor > b.highest(r.Key)+driver.MaxAhead {
					return driver.Result{}, driver.ErrInvalid
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"Floor is reported and not kept while others wait", []string{"floor while waiting"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				low := r
				if len(b.queue(r.Key)) > 0 {
					low.Floor = 0
				}
				res, err := b.mem.Acquire(ctx, low)
				if res.Granted {
					res.Fence = max(res.Fence, r.Floor)
				}
				return res, err
			}
		}},
		{"the Floor of a refusal counts", []string{"floor refused"}, func(b *bent) {
			var mu sync.Mutex
			floors := map[string]uint64{}
			answers(func(_ *bent, r driver.Request, res *driver.Result) {
				mu.Lock()
				defer mu.Unlock()
				if !res.Granted {
					floors[r.Key] = max(floors[r.Key], r.Floor)
				} else if floors[r.Key] > 0 {
					res.Fence = max(res.Fence, floors[r.Key]+driver.Span)
				}
			})(b)
		}},
	}
}
