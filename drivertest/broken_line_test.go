package drivertest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// lineFaults and hintFaults are wrong about waiting.

func lineFaults() []fault {
	return []fault{
		{"places never die", []string{"dead waiter", "place shorter", "leak"}, asks(func(_ *bent, r *driver.Request) {
			if r.QueueTTL > 0 {
				r.QueueTTL = max(r.QueueTTL, time.Hour)
			}
		})},
		{"places are made longer only", []string{"place shorter"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL > 0 {
				r.QueueTTL = max(r.QueueTTL, c.Left)
			}
		})},
		{"places die early", []string{"dead waiter", "place renewed"}, asks(func(_ *bent, r *driver.Request) { r.QueueTTL = r.QueueTTL * 4 / 10 })},
		{"no places are kept", []string{"queue", "nobody passes", "ahead and behind"}, asks(func(_ *bent, r *driver.Request) { r.QueueTTL = min(r.QueueTTL, 0) })},
		{"those without a place pass", []string{"nobody passes"}, passing(func(r driver.Request) bool { return r.QueueTTL == 0 })},
		{"readers pass", []string{"nobody passes"}, passing(func(r driver.Request) bool { return r.Weight == 1 })},
		{"the last to come is the first", []string{"queue", "ahead and behind", "show"}, passing(func(r driver.Request) bool { return r.QueueTTL > 0 })},
		{"a place renewed is a new place", []string{"place renewed", "ahead and behind"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL > 0 && len(b.line(r.Key)) > 1 && b.line(r.Key)[0].ID == r.ID {
					_ = b.mem.Release(ctx, r.ID)
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"a place cannot be given up", []string{"leave", "leave room", "wake by room"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				if c, ok := b.on(id); ok && c.Waiting {
					return nil
				}
				return b.mem.Release(ctx, id)
			}
		}},
		{"a place can be renewed as a claim", []string{"a place is no claim"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				if c, ok := b.on(r.ID); ok && c.Waiting {
					return 0, nil
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"asking without QueueTTL gives the place up", []string{"no place"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL == 0 {
					_ = b.mem.Release(ctx, r.ID)
				}
				return res, err
			}
		}},
		{"asking without QueueTTL takes one", []string{"no place"}, asks(func(_ *bent, r *driver.Request) {
			if r.QueueTTL == 0 {
				r.QueueTTL = time.Hour
			}
		})},
		{"readers go in one by one", []string{"readers", "wake in turn"}, asks(func(_ *bent, r *driver.Request) {
			if r.QueueTTL > 0 && r.Weight == 1 && r.Limit == driver.Whole {
				r.Limit = 1
			}
		})},
		{"behind is off by one", []string{"ahead and behind", "queue", "again in line"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Behind++ })},
		{"ahead counts the owner", []string{"ahead and behind", "queue"}, answers(func(_ *bent, r driver.Request, res *driver.Result) {
			if !res.Granted && r.QueueTTL > 0 {
				res.Ahead++
			}
		})},
		{"renew tells no line", []string{"ahead and behind", "leave"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				_, err := b.mem.Renew(ctx, r)
				return 0, err
			}
		}},
		{"those without a place have a line behind them", []string{"no place"}, answers(func(b *bent, r driver.Request, res *driver.Result) {
			if _, live := b.on(r.ID); !live && !res.Granted {
				res.Behind = len(b.line(r.Key))
			}
		})},
		{"the head has room by the limit of its place", []string{"limit asked last"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting {
				r.Limit = max(r.Limit, c.Limit)
			}
		})},
		{"the head has room by its lowest limit", []string{"limit asked last"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting && r.Weight <= c.Limit {
				r.Limit = min(r.Limit, c.Limit)
			}
		})},
		{"a claim carries what its place did", []string{"claim as asked last"}, claimed(func(r *driver.Request, place driver.Claim) {
			r.Value, r.Meta = place.Value, place.Meta
		})},
		{"a claim has the holder of its place", []string{"claim as asked last"}, claimed(func(r *driver.Request, place driver.Claim) {
			r.Holder, r.Task = place.Holder, place.Task
		})},
		{"a claim weighs what its place did", []string{"claim as asked last"}, claimed(func(r *driver.Request, place driver.Claim) {
			r.Weight, r.Limit = place.Weight, place.Limit
		})},
		{"an attempt without QueueTTL changes the entry", []string{"entry as it was"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL == 0 {
				r.QueueTTL = c.Left
			}
		})},
		{"an attempt without QueueTTL prolongs the entry", []string{"entry as it was"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				b.step.Lock()
				defer b.step.Unlock()
				for _, w := range b.line(r.Key) {
					if w.ID == r.ID && r.QueueTTL == 0 {
						w.QueueTTL = time.Hour
						if _, err := b.mem.Acquire(ctx, w); err != nil {
							return driver.Result{}, err
						}
					}
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"a place stands for what was asked first", []string{"place as asked last"}, func(b *bent) {
			first := map[driver.ID]driver.Request{}
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if c, ok := b.on(r.ID); !ok || !c.Waiting || r.Validate(b.Features()) != nil || r.QueueTTL == 0 {
					first[r.ID] = r
					return b.mem.Acquire(ctx, r)
				}
				now := r
				now.QueueTTL = 0
				res, err := b.mem.Acquire(ctx, now)
				if err == nil && !res.Granted {
					was := first[r.ID]
					was.QueueTTL = r.QueueTTL
					_, _ = b.mem.Acquire(ctx, was)
				}
				return res, err
			}
		}},
	}
}

// claimed bends what the head of the line is granted, and leaves places alone.
func claimed(f func(r *driver.Request, place driver.Claim)) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			place, ok := b.on(r.ID)
			if ok && place.Waiting && r.Validate(b.Features()) == nil {
				now := r
				now.QueueTTL = 0
				f(&now, place)
				if res, err := b.mem.Acquire(ctx, now); err != nil || res.Granted {
					return res, err
				}
			}
			return b.mem.Acquire(ctx, r)
		}
	}
}

func hintFaults() []fault {
	// refusal bends what a refusal tells, given what stands on the key.
	refusal := func(f func(res *driver.Result, mine driver.Claim, held, line []driver.Claim)) func(b *bent) {
		return answers(func(b *bent, r driver.Request, res *driver.Result) {
			if res.Granted {
				return
			}
			mine, _ := b.on(r.ID)
			cs, _ := b.mem.Show(context.Background(), r.Key)
			held := b.held(r.Key)
			f(res, mine, held, cs[len(held):])
		})
	}
	first := func(cs []driver.Claim) driver.Claim {
		return slices.MinFunc(cs, func(a, b driver.Claim) int { return cmp.Compare(a.Left, b.Left) })
	}
	return []fault{
		{"retry is too long", []string{"retry", "window"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Retry *= 3 })},
		{"retry is too short", []string{"retry"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Retry /= 3 })},
		{"no blocker is named", []string{"retry", "nobody passes", "keep"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Blocker = driver.Claim{} })},
		{"retry tells of the oldest", []string{"first to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if len(held) > 0 && !res.Blocker.Waiting {
				res.Retry = held[0].Left
			}
		})},
		{"retry tells of the youngest", []string{"first to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if len(held) > 0 && !res.Blocker.Waiting {
				res.Retry = held[len(held)-1].Left
			}
		})},
		{"retry ignores the line", []string{"first in line to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if len(held) > 0 {
				res.Retry = first(held).Left
			}
		})},
		{"retry ignores the line where there is no room", []string{"first in line to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if !res.Blocker.Waiting {
				res.Retry = first(held).Left
			}
		})},
		{"retry tells of the head of the line", []string{"first in line to end"}, refusal(func(res *driver.Result, _ driver.Claim, _, line []driver.Claim) {
			if res.Blocker.Waiting {
				res.Retry = line[0].Left
			}
		})},
		{"retry tells of those behind", []string{"first in line to end"}, refusal(func(res *driver.Result, _ driver.Claim, _, line []driver.Claim) {
			if res.Blocker.Waiting {
				res.Retry = first(line).Left
			}
		})},
		{"retry is rounded down", []string{"when to ask"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) {
			res.Retry = res.Retry.Truncate(time.Second)
		})},
		{"retry is a twentieth too short", []string{"when to ask"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) {
			res.Retry -= res.Retry / 20
		})},
		{"the blocker is the last in line", []string{"blocker"}, refusal(func(res *driver.Result, _ driver.Claim, _, line []driver.Claim) {
			if res.Blocker.Waiting {
				res.Blocker = line[len(line)-1]
			}
		})},
		{"the blocker is the owner's own place", []string{"blocker"}, refusal(func(res *driver.Result, mine driver.Claim, _, _ []driver.Claim) {
			if mine.Waiting {
				res.Blocker = mine
			}
		})},
		{"the blocker is in line though there is no room", []string{"blocker"}, refusal(func(res *driver.Result, _ driver.Claim, _, line []driver.Claim) {
			if res.Ahead > 0 {
				res.Blocker = line[0]
			}
		})},
		{"the blocker has no holder", []string{"holder", "blocker", "as it was"}, refusal(func(res *driver.Result, _ driver.Claim, _, _ []driver.Claim) {
			res.Blocker.Holder = ""
		})},
		{"the blocker has no value", []string{"value", "copies"}, refusal(func(res *driver.Result, _ driver.Claim, _, _ []driver.Claim) {
			res.Blocker.Value = nil
		})},
		{"places have fences", []string{"blocker"}, refusal(func(res *driver.Result, _ driver.Claim, _, _ []driver.Claim) {
			res.Blocker.Fence = max(res.Blocker.Fence, 1)
		})},
	}
}
