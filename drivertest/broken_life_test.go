package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// capacityFaults, lifeFaults and againFaults are wrong about claims.

func capacityFaults() []fault {
	return []fault{
		{"every grant is fresh", []string{"fresh"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Fresh = res.Granted })},
		{"readers exclude each other", []string{"shared", "downgrade"}, requests(func(_ *bent, r *driver.Request) { r.Weight = r.Limit })},
		{"used is off by one", []string{"exclusive", "shared", "count"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Used++ })},
		{"a downgrade is forgotten", []string{"downgrade", "wake by capacity"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok {
				r.Weight = max(r.Weight, c.Weight)
			}
		})},
		{"a downgrade by part is forgotten", []string{"downgrade by part"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && !c.Waiting && r.Weight > 1 {
				r.Weight = max(r.Weight, c.Weight)
				r.Limit = max(r.Limit, r.Weight)
			}
		})},
		{"the limit is that of the first claim", []string{"count"}, requests(func(b *bent, r *driver.Request) {
			if cs, _ := b.mem.Show(context.Background(), r.Key); len(cs) > 0 && r.Weight <= cs[0].Limit {
				r.Limit = cs[0].Limit
			}
		})},
		{"one more for large limits", []string{"many slots"}, requests(func(_ *bent, r *driver.Request) {
			if r.Limit >= 200 && r.Limit < driver.Whole {
				r.Limit++
			}
		})},
		{"every claim fits", []string{"exclusive", "shared", "count", "race", "race for slots"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if err := r.Validate(b.Features()); err != nil {
					return driver.Result{}, err
				}
				r.Weight, r.Limit = 1, driver.Whole
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"the first attempt after an expiry is refused", []string{"slots at once"}, func(b *bent) {
			ends := map[string]time.Time{} // of the first slot on each key
			var mu sync.Mutex
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				mu.Lock()
				end, ok := ends[r.Key]
				if !ok && r.Limit == 2 {
					ends[r.Key] = time.Now().Add(r.TTL)
				} else if ok && !end.IsZero() && !time.Now().Before(end) {
					ends[r.Key] = time.Time{}
					mu.Unlock()
					return driver.Result{Used: r.Limit}, nil
				}
				mu.Unlock()
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"one more slot after an expiry", []string{"slots"}, requests(func(b *bent, r *driver.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for id, was := range b.requests {
				if _, live := b.on(id); id.Key == r.Key && was.TTL < time.Minute && id != r.ID && !live && r.Limit < driver.Whole {
					r.Limit++
				}
			}
		})},
	}
}

func lifeFaults() []fault {
	lives := func(f func(time.Duration) time.Duration) func(b *bent) {
		return both(
			requests(func(_ *bent, r *driver.Request) { r.TTL = f(r.TTL) }),
			renews(func(_ *bent, r *driver.Renewal) { r.TTL = f(r.TTL) }))
	}
	left := func(b *bent, id driver.ID) time.Duration {
		c, _ := b.on(id)
		return c.Left
	}
	return []fault{
		{"release forgets the owner", []string{"stale", "opaque owners", "other key"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				err := b.mem.Release(ctx, id)
				if cs, _ := b.mem.Break(ctx, id.Key, 0, ""); len(cs) > 0 {
					return nil
				}
				return err
			}
		}},
		{"renew forgets the owner", []string{"stale", "opaque owners", "entry is no claim", "ended"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				n, err := b.mem.Renew(ctx, r)
				if errors.Is(err, driver.ErrNotHeld) {
					err = nil
				}
				return n, err
			}
		}},
		{"a claim that has expired is released", []string{"ended"}, func(b *bent) {
			released := map[driver.ID]bool{}
			b.release = func(ctx context.Context, id driver.ID) error {
				err := b.mem.Release(ctx, id)
				b.mu.Lock()
				defer b.mu.Unlock()
				_, known := b.requests[id]
				if expired := known && !released[id]; expired && errors.Is(err, driver.ErrNotHeld) {
					err = nil
				}
				released[id] = true
				return err
			}
		}},
		{"renew brings back", []string{"ended", "renew and release"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				time.Sleep(time.Millisecond) // until a concurrent release is done
				n, err := b.mem.Renew(ctx, r)
				b.mu.Lock()
				was, ok := b.requests[r.ID]
				b.mu.Unlock()
				if errors.Is(err, driver.ErrNotHeld) && ok {
					was.TTL = r.TTL
					_, err = b.mem.Acquire(ctx, was)
				}
				return n, err
			}
		}},
		{"claims end early", []string{"expiry", "renew", "shorten", "again", "window", "keep"}, lives(func(d time.Duration) time.Duration { return d * 9 / 10 })},
		{"claims end late", []string{"expiry", "renew", "shorten", "again", "window", "keep"}, lives(func(d time.Duration) time.Duration { return d * 3 / 2 })},
		{"claims never end", []string{"expiry", "fence", "leak"}, lives(func(d time.Duration) time.Duration { return max(d, d+time.Hour) })},
		{"windows never end", []string{"window", "slots"}, requests(func(_ *bent, r *driver.Request) {
			if r.Limit < driver.Whole {
				r.TTL += time.Hour
			}
		})},
		{"renew does not shorten", []string{"shorten", "fence"}, renews(func(b *bent, r *driver.Renewal) {
			if r.TTL > 0 {
				r.TTL = max(r.TTL, left(b, r.ID))
			}
		})},
		{"renew adds", []string{"renew"}, renews(func(b *bent, r *driver.Renewal) {
			if r.TTL > 0 && r.TTL < time.Hour {
				r.TTL += left(b, r.ID)
			}
		})},
		{"renew does nothing", []string{"renew", "shorten", "value"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				if c, ok := b.on(r.ID); ok && !c.Waiting {
					return len(b.queue(r.Key)), r.Validate(b.Features())
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"records are not marked", []string{"keep", "wake all", "observer"}, renews(func(_ *bent, r *driver.Renewal) { r.Keep = false })},
		{"a late renewal changes a record", []string{"record"}, renews(func(b *bent, r *driver.Renewal) {
			if c, ok := b.on(r.ID); ok && c.Kept {
				r.Keep = true
			}
		})},
		{"a late value changes a record", []string{"record"}, renews(func(b *bent, r *driver.Renewal) {
			if c, ok := b.on(r.ID); ok && c.Kept && !r.Keep && r.Value != nil {
				r.Keep, r.TTL = true, c.Left
			}
		})},
		{"a repeated Acquire changes a record", []string{"record"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Kept {
				_, _ = b.mem.Renew(context.Background(), driver.Renewal{ID: r.ID, TTL: r.TTL, Keep: true})
			}
		})},
		{"lives are rounded down", []string{"odd TTL"}, both(whole, lives(roundDown))},
		{"lives are cut to milliseconds", []string{"odd milliseconds"}, lives(func(d time.Duration) time.Duration {
			return max(d.Truncate(time.Millisecond), min(d, time.Millisecond))
		})},
		{"renewals are rounded down", []string{"odd TTL"}, both(whole, renews(func(_ *bent, r *driver.Renewal) { r.TTL = roundDown(r.TTL) }))},
		{"records are rounded down", []string{"odd TTL"}, both(whole, renews(func(_ *bent, r *driver.Renewal) {
			if r.Keep {
				r.TTL = roundDown(r.TTL)
			}
		}))},
		{"QueueTTLs are rounded down", []string{"odd TTL"}, both(whole, requests(func(_ *bent, r *driver.Request) { r.QueueTTL = roundDown(r.QueueTTL) }))},
		{"records cannot be released", []string{"record ended"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				if c, ok := b.on(id); ok && c.Kept {
					return driver.ErrNotHeld
				}
				return b.mem.Release(ctx, id)
			}
		}},
		{"long lives wrap around", []string{"huge TTL"}, lives(func(d time.Duration) time.Duration {
			if d > 1<<61 {
				return 1
			}
			return d
		})},
		{"long lives are cut to ten years", []string{"huge TTL"}, lives(func(d time.Duration) time.Duration {
			return min(d, 10*366*24*time.Hour)
		})},
		{"long QueueTTLs wrap around", []string{"huge QueueTTL"}, requests(func(_ *bent, r *driver.Request) {
			if r.QueueTTL > 1<<62 {
				r.QueueTTL = 1
			}
		})},
		{"a restart forgets", []string{"restart"}, func(b *bent) { b.restart = func() driver.Store { return newBent() } }},
		{"a day is the longest life", []string{"huge TTL"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if r.TTL > 24*time.Hour {
					return driver.Result{}, driver.ErrInvalid
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"the longest TTL is too long", []string{"huge TTL"}, bounded(func(r *driver.Request) bool { return r.TTL < longestTTL })},
		{"the longest TTL is not enforced", []string{"huge TTL", "invalid"}, bounded(func(*driver.Request) bool { return true })},
		{"QueueTTLs are bounded like TTLs", []string{"huge QueueTTL"}, bounded(func(r *driver.Request) bool { return max(r.TTL, r.QueueTTL) <= longestTTL })},
	}
}

// whole makes a second the shortest TTL, as in a store that counts whole seconds.
func whole(b *bent) {
	b.features = func(f driver.Features) driver.Features { f.MinTTL = time.Second; return f }
}

// roundDown is the mistake of a store that counts whole seconds.
func roundDown(d time.Duration) time.Duration { return d.Truncate(time.Second) }

// longestTTL is the MaxTTL of bounded stores.
const longestTTL = 2 * time.Minute

// bounded declares a MaxTTL, and accepts requests for which ok returns true.
func bounded(ok func(r *driver.Request) bool) func(b *bent) {
	return func(b *bent) {
		b.features = func(f driver.Features) driver.Features { f.MaxTTL = longestTTL; return f }
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			if !ok(&r) {
				return driver.Result{}, driver.ErrInvalid
			}
			return b.mem.Acquire(ctx, r)
		}
	}
}

func againFaults() []fault {
	return []fault{
		{"a repeated Acquire restarts no TTL", []string{"again", "again shorter"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && !c.Waiting {
				r.TTL = c.Left
			}
		})},
		{"a repeated Acquire is a second claim", []string{"again", "heavier", "one owner"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && !c.Waiting {
				r.Owner += "2"
			}
		})},
		{"a repeated Acquire raises the weight", []string{"heavier"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if c, ok := b.on(r.ID); ok && !c.Waiting && r.Weight > c.Weight {
					_ = b.mem.Release(ctx, r.ID)
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"a repeated Acquire needs capacity", []string{"lower limit"}, refuses(func(_ *bent, r driver.Request, res driver.Result) bool { return res.Used > r.Limit })},
		{"a repeated Acquire joins the queue", []string{"again with a queue"}, refuses(func(_ *bent, _ driver.Request, res driver.Result) bool { return res.Behind > 0 })},
		{"a repeated Acquire changes the holder", []string{"as it was"}, shown(func(b *bent, cs []driver.Claim) []driver.Claim {
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := range cs {
				for id, r := range b.requests {
					if driver.Tag(id.Owner) == cs[i].Owner {
						cs[i].Holder = r.Holder
					}
				}
			}
			return cs
		})},
		{"an owner is the same on all keys", []string{"other key"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				b.mu.Lock()
				defer b.mu.Unlock()
				for id := range b.requests {
					if _, ok := b.on(id); ok && id.Owner == r.Owner && err == nil && !res.Granted {
						return driver.Result{Granted: true, Fence: 1, Used: res.Used}, nil
					}
				}
				return res, err
			}
		}},
		{"an owner that ended has its old fence", []string{"ended owner"}, func(b *bent) {
			given := map[string]uint64{}
			var last uint64
			numbered(func(_ *bent, r driver.Request) uint64 {
				if given[r.Owner] == 0 {
					last += driver.Span
					given[r.Owner] = last
				}
				return given[r.Owner]
			})(b)
		}},
		{"an owner that ended is refused", []string{"ended owner"}, func(b *bent) {
			granted := map[driver.ID]bool{}
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if _, live := b.on(r.ID); granted[r.ID] && !live {
					return driver.Result{}, nil
				}
				res, err := b.mem.Acquire(ctx, r)
				granted[r.ID] = granted[r.ID] || res.Granted
				return res, err
			}
		}},
	}
}
