package drivertest

import (
	"context"
	"time"

	"github.com/distlock/distlock/driver"
)

// lineFaults and wakeFaults are wrong about waiting.

func lineFaults() []fault {
	return []fault{
		{"places never die", []string{"dead waiter", "place shorter", "leak"}, asks(func(_ *bent, r *driver.Request) {
			if r.Place > 0 {
				r.Place = max(r.Place, time.Hour)
			}
		})},
		{"places die early", []string{"dead waiter", "place renewed"}, asks(func(_ *bent, r *driver.Request) { r.Place = r.Place * 4 / 10 })},
		{"no places are kept", []string{"queue", "nobody passes", "ahead and behind"}, asks(func(_ *bent, r *driver.Request) { r.Place = min(r.Place, 0) })},
		{"those without a place pass", []string{"nobody passes"}, passing(func(r driver.Request) bool { return r.Place == 0 })},
		{"readers pass", []string{"nobody passes"}, passing(func(r driver.Request) bool { return r.Weight == 1 })},
		{"the last to come is the first", []string{"queue", "ahead and behind", "show"}, passing(func(r driver.Request) bool { return r.Place > 0 })},
		{"a place renewed is a new place", []string{"place renewed", "ahead and behind"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if c, ok := b.on(r.ID); ok && c.Waiting && r.Place > 0 && len(b.line(r.Key)) > 1 && b.line(r.Key)[0].ID == r.ID {
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
		{"asking without Place gives the place up", []string{"no place"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if c, ok := b.on(r.ID); ok && c.Waiting && r.Place == 0 {
					_ = b.mem.Release(ctx, r.ID)
				}
				return res, err
			}
		}},
		{"asking without Place takes one", []string{"no place"}, asks(func(_ *bent, r *driver.Request) {
			if r.Place == 0 {
				r.Place = time.Hour
			}
		})},
		{"readers go in one by one", []string{"readers", "wake in turn"}, asks(func(_ *bent, r *driver.Request) {
			if r.Place > 0 && r.Weight == 1 && r.Limit == driver.Whole {
				r.Limit = 1
			}
		})},
		{"behind is off by one", []string{"ahead and behind", "queue", "again in line"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Behind++ })},
		{"ahead counts the owner", []string{"ahead and behind", "queue"}, answers(func(_ *bent, r driver.Request, res *driver.Result) {
			if !res.Granted && r.Place > 0 {
				res.Ahead++
			}
		})},
		{"renew tells no line", []string{"ahead and behind", "leave"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				_, err := b.mem.Renew(ctx, r)
				return 0, err
			}
		}},
		{"retry is too long", []string{"retry", "window"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Retry *= 3 })},
		{"retry is too short", []string{"retry"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Retry /= 3 })},
		{"no blocker is named", []string{"retry", "nobody passes", "keep"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Blocker = driver.Claim{} })},
	}
}

func wakeFaults() []fault {
	return []fault{
		{"everybody is woken", []string{"wake"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan struct{} {
				return b.mem.Watch(ctx, driver.ID{Key: id.Key})
			}
		}},
		{"nobody is woken", []string{"wake", "wake by room", "wake in turn", "wake all", "wake by break", "onlooker"}, func(b *bent) {
			b.watch = func(context.Context, driver.ID) <-chan struct{} { return make(chan struct{}) }
		}},
		{"a watch outlives its ctx", []string{"watch ends"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan struct{} {
				return b.mem.Watch(context.WithoutCancel(ctx), id)
			}
		}},
		{"a watch is closed", []string{"watch ends"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan struct{} {
				ch := make(chan struct{})
				context.AfterFunc(ctx, func() { close(ch) })
				return ch
			}
		}},
		{"renewals wake", []string{"wake"}, func(b *bent) {
			woken := make(chan struct{}, 1)
			b.watch = func(context.Context, driver.ID) <-chan struct{} { return woken }
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				select {
				case woken <- struct{}{}:
				default:
				}
				return b.mem.Renew(ctx, r)
			}
		}},
	}
}
