package drivertest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// queueFaults are wrong about the queue, and hintFaults about the hints of a refusal.

func queueFaults() []fault {
	return []fault{
		{"an entry that has expired is released", []string{"expired entry"}, func(b *bent) {
			last := map[string]driver.ID{} // the last Acquire
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				last[r.Key] = r.ID
				return b.mem.Acquire(ctx, r)
			}
			b.release = func(ctx context.Context, id driver.ID) error {
				err := b.mem.Release(ctx, id)
				if b.requests[id].QueueTTL > 0 && last[id.Key] == id {
					return nil
				}
				return err
			}
		}},
		{"entries never expire", []string{"expired entry", "shortened entry", "leak"}, requests(func(_ *bent, r *driver.Request) {
			if r.QueueTTL > 0 {
				r.QueueTTL = max(r.QueueTTL, time.Hour)
			}
		})},
		{"entries are never shortened", []string{"shortened entry"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL > 0 {
				r.QueueTTL = max(r.QueueTTL, c.Left)
			}
		})},
		{"entries expire early", []string{"expired entry", "refreshed entry"}, requests(func(_ *bent, r *driver.Request) { r.QueueTTL = r.QueueTTL * 4 / 10 })},
		{"no entries are added", []string{"queue", "no overtaking", "ahead and behind"}, requests(func(_ *bent, r *driver.Request) { r.QueueTTL = min(r.QueueTTL, 0) })},
		{"owners without an entry overtake", []string{"no overtaking"}, overtaking(func(r driver.Request) bool { return r.QueueTTL == 0 })},
		{"readers overtake", []string{"no overtaking"}, overtaking(func(r driver.Request) bool { return r.Weight == 1 })},
		{"the last to come is the first", []string{"queue", "ahead and behind", "show"}, overtaking(func(r driver.Request) bool { return r.QueueTTL > 0 })},
		{"a refreshed entry is a new entry", []string{"refreshed entry", "ahead and behind"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL > 0 && len(b.queue(r.Key)) > 1 && b.queue(r.Key)[0].ID == r.ID {
					_ = b.mem.Release(ctx, r.ID)
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"an entry cannot be withdrawn", []string{"withdrawn entry", "withdrawn head", "wake by capacity"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				if c, ok := b.on(id); ok && c.Waiting {
					return nil
				}
				return b.mem.Release(ctx, id)
			}
		}},
		{"an entry can be renewed as a claim", []string{"entry is no claim"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				if c, ok := b.on(r.ID); ok && c.Waiting {
					return 0, nil
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"an attempt without QueueTTL withdraws the entry", []string{"no QueueTTL"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL == 0 {
					_ = b.mem.Release(ctx, r.ID)
				}
				return res, err
			}
		}},
		{"an attempt without QueueTTL adds an entry", []string{"no QueueTTL"}, requests(func(_ *bent, r *driver.Request) {
			if r.QueueTTL == 0 {
				r.QueueTTL = time.Hour
			}
		})},
		{"readers are granted one by one", []string{"readers", "wake the next"}, requests(func(_ *bent, r *driver.Request) {
			if r.QueueTTL > 0 && r.Weight == 1 && r.Limit == driver.Whole {
				r.Limit = 1
			}
		})},
		{"behind is off by one", []string{"ahead and behind", "queue", "again with a queue"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Behind++ })},
		{"ahead counts the owner", []string{"ahead and behind", "queue"}, answers(func(_ *bent, r driver.Request, res *driver.Result) {
			if !res.Granted && r.QueueTTL > 0 {
				res.Ahead++
			}
		})},
		{"renew reports no queue", []string{"ahead and behind", "withdrawn entry"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				_, err := b.mem.Renew(ctx, r)
				return 0, err
			}
		}},
		{"owners without an entry have a queue behind them", []string{"no QueueTTL"}, answers(func(b *bent, r driver.Request, res *driver.Result) {
			if _, live := b.on(r.ID); !live && !res.Granted {
				res.Behind = len(b.queue(r.Key))
			}
		})},
		{"the head is granted by the limit of its entry", []string{"limit of last attempt"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting {
				r.Limit = max(r.Limit, c.Limit)
			}
		})},
		{"the head is granted by its lowest limit", []string{"limit of last attempt"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting && r.Weight <= c.Limit {
				r.Limit = min(r.Limit, c.Limit)
			}
		})},
		{"a claim has the value of its entry", []string{"claim of last attempt"}, claimed(func(r *driver.Request, entry driver.Claim) {
			r.Value, r.Meta = entry.Value, entry.Meta
		})},
		{"a claim has the holder of its entry", []string{"claim of last attempt"}, claimed(func(r *driver.Request, entry driver.Claim) {
			r.Holder, r.Task = entry.Holder, entry.Task
		})},
		{"a claim behind the head has the holder of an earlier attempt", []string{"claim behind the head"}, func(b *bent) {
			first := map[driver.ID]string{}
			requests(func(b *bent, r *driver.Request) {
				c, ok := b.on(r.ID)
				if _, again := first[r.ID]; ok && c.Waiting && !again && b.queue(r.Key)[0].ID != r.ID {
					first[r.ID] = c.Holder
				}
				if holder, again := first[r.ID]; again {
					r.Holder = holder
				}
			})(b)
		}},
		{"a claim has the weight of its entry", []string{"claim of last attempt"}, claimed(func(r *driver.Request, entry driver.Claim) {
			r.Weight, r.Limit = entry.Weight, entry.Limit
		})},
		{"an attempt without QueueTTL changes the entry", []string{"entry as it was"}, requests(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && c.Waiting && r.QueueTTL == 0 {
				r.QueueTTL = c.Left
			}
		})},
		{"an attempt without QueueTTL refreshes the entry", []string{"entry as it was"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				b.step.Lock()
				defer b.step.Unlock()
				for _, w := range b.queue(r.Key) {
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
		{"an entry holds the data of the first attempt", []string{"entry of last attempt"}, func(b *bent) {
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

// claimed bends the claim that the head of the queue is granted, and leaves entries as they are.
func claimed(f func(r *driver.Request, entry driver.Claim)) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			entry, ok := b.on(r.ID)
			if ok && entry.Waiting && r.Validate(b.Features()) == nil {
				now := r
				now.QueueTTL = 0
				f(&now, entry)
				if res, err := b.mem.Acquire(ctx, now); err != nil || res.Granted {
					return res, err
				}
			}
			return b.mem.Acquire(ctx, r)
		}
	}
}

func hintFaults() []fault {
	// refusal bends a refusal, given the claims and the queue of the key.
	refusal := func(f func(res *driver.Result, mine driver.Claim, held, queue []driver.Claim)) func(b *bent) {
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
		{"no blocker is named", []string{"retry", "no overtaking", "keep"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Blocker = driver.Claim{} })},
		{"retry is about the oldest", []string{"first to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if len(held) > 0 && !res.Blocker.Waiting {
				res.Retry = held[0].Left
			}
		})},
		{"retry is about the youngest", []string{"first to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if len(held) > 0 && !res.Blocker.Waiting {
				res.Retry = held[len(held)-1].Left
			}
		})},
		{"retry ignores the queue", []string{"first entry to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if len(held) > 0 {
				res.Retry = first(held).Left
			}
		})},
		{"retry ignores the queue without capacity", []string{"first entry to end"}, refusal(func(res *driver.Result, _ driver.Claim, held, _ []driver.Claim) {
			if !res.Blocker.Waiting {
				res.Retry = first(held).Left
			}
		})},
		{"retry is about the head of the queue", []string{"first entry to end"}, refusal(func(res *driver.Result, _ driver.Claim, _, queue []driver.Claim) {
			if res.Blocker.Waiting {
				res.Retry = queue[0].Left
			}
		})},
		{"retry is about the entries behind", []string{"first entry to end"}, refusal(func(res *driver.Result, _ driver.Claim, _, queue []driver.Claim) {
			if res.Blocker.Waiting {
				res.Retry = first(queue).Left
			}
		})},
		{"retry is rounded down", []string{"when to retry"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) {
			res.Retry = res.Retry.Truncate(time.Second)
		})},
		{"retry is a twentieth too short", []string{"when to retry"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) {
			res.Retry -= res.Retry / 20
		})},
		{"the blocker is the last in the queue", []string{"blocker"}, refusal(func(res *driver.Result, _ driver.Claim, _, queue []driver.Claim) {
			if res.Blocker.Waiting {
				res.Blocker = queue[len(queue)-1]
			}
		})},
		{"the blocker is the owner's own entry", []string{"blocker"}, refusal(func(res *driver.Result, mine driver.Claim, _, _ []driver.Claim) {
			if mine.Waiting {
				res.Blocker = mine
			}
		})},
		{"the blocker is in the queue without capacity", []string{"blocker"}, refusal(func(res *driver.Result, _ driver.Claim, _, queue []driver.Claim) {
			if res.Ahead > 0 {
				res.Blocker = queue[0]
			}
		})},
		{"the blocker has no holder", []string{"holder", "blocker", "as it was"}, refusal(func(res *driver.Result, _ driver.Claim, _, _ []driver.Claim) {
			res.Blocker.Holder = ""
		})},
		{"the blocker has no value", []string{"value", "copies"}, refusal(func(res *driver.Result, _ driver.Claim, _, _ []driver.Claim) {
			res.Blocker.Value = nil
		})},
		{"entries have fences", []string{"blocker"}, refusal(func(res *driver.Result, _ driver.Claim, _, _ []driver.Claim) {
			res.Blocker.Fence = max(res.Blocker.Fence, 1)
		})},
	}
}
