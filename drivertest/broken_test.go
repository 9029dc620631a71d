package drivertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// A fault is a store that is broken, and the laws that must tell.
type fault struct {
	name string
	laws []string
	bend func(b *bent)
}

// The shapes that most faults have.

type (
	asking    = func(b *bent, r *driver.Request)
	answering = func(b *bent, r driver.Request, res *driver.Result)
)

// asks bends what is asked for.
func asks(f asking) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			f(b, &r)
			return b.mem.Acquire(ctx, r)
		}
	}
}

// answers bends the answer of Acquire.
func answers(f answering) func(b *bent) {
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

// renews bends what Renew is asked for.
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

// named bends keys and owners on their way in.
func named(f func(driver.ID) driver.ID) func(b *bent) {
	return both(
		asks(func(_ *bent, r *driver.Request) { r.ID = f(r.ID) }),
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

// tells bends what Show tells.
func tells(f func(b *bent, cs []driver.Claim) []driver.Claim) func(b *bent) {
	return func(b *bent) {
		b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
			cs, err := b.mem.Show(ctx, key)
			return f(b, cs), err
		}
	}
}

// numbered replaces the fences by those that next gives.
func numbered(next func(b *bent, r driver.Request) uint64) func(b *bent) {
	return func(b *bent) {
		var mu sync.Mutex
		given := map[driver.ID]uint64{}
		answers(func(b *bent, r driver.Request, res *driver.Result) {
			mu.Lock()
			defer mu.Unlock()
			if res.Granted && given[r.ID] == 0 {
				given[r.ID] = next(b, r)
			}
			if res.Granted {
				res.Fence = given[r.ID]
			}
		})(b)
	}
}

// passing lets requests in without regard to the line.
func passing(who func(r driver.Request) bool) func(b *bent) {
	return func(b *bent) {
		b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
			if r.Validate(b.Features()) == nil && who(r) {
				return b.unlined(ctx, r)
			}
			return b.mem.Acquire(ctx, r)
		}
	}
}

// refuses refuses an owner that holds what it asks for.
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

// faults returns broken stores. Each law is broken by at least one.
func faults() []fault {
	return slices.Concat(roomFaults(), lifeFaults(), fenceFaults(), lineFaults(), wakeFaults(), nameFaults(), tellFaults(), manyFaults())
}

func roomFaults() []fault {
	return []fault{
		{"readers exclude each other", []string{"shared", "downgrade"}, asks(func(_ *bent, r *driver.Request) { r.Weight = r.Limit })},
		{"used is off by one", []string{"exclusive", "shared", "count"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) { res.Used++ })},
		{"a downgrade is forgotten", []string{"downgrade", "wake by room"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok {
				r.Weight = max(r.Weight, c.Weight)
			}
		})},
		{"the limit is that of the first claim", []string{"count"}, asks(func(b *bent, r *driver.Request) {
			if cs, _ := b.mem.Show(context.Background(), r.Key); len(cs) > 0 && r.Weight <= cs[0].Limit {
				r.Limit = cs[0].Limit
			}
		})},
		{"one more for large limits", []string{"crowd"}, asks(func(_ *bent, r *driver.Request) {
			if r.Limit >= 1000 && r.Limit < driver.Whole {
				r.Limit++
			}
		})},
		{"everybody has room", []string{"exclusive", "shared", "count", "race"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if err := r.Validate(b.Features()); err != nil {
					return driver.Result{}, err
				}
				r.Weight, r.Limit = 1, driver.Whole
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"one more slot after an expiry", []string{"slots"}, asks(func(b *bent, r *driver.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for id, was := range b.asked {
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
			asks(func(_ *bent, r *driver.Request) { r.TTL = f(r.TTL) }),
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
				if cs, _ := b.mem.Break(ctx, id.Key, ""); len(cs) > 0 {
					return nil
				}
				return err
			}
		}},
		{"renew forgets the owner", []string{"stale", "opaque owners", "a place is no claim", "ended"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				n, err := b.mem.Renew(ctx, r)
				if errors.Is(err, driver.ErrNotHeld) {
					err = nil
				}
				return n, err
			}
		}},
		{"renew brings back", []string{"ended", "renew and release"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				n, err := b.mem.Renew(ctx, r)
				b.mu.Lock()
				was, ok := b.asked[r.ID]
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
		{"windows never end", []string{"window", "slots"}, asks(func(_ *bent, r *driver.Request) {
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
					return len(b.line(r.Key)), r.Validate(b.Features())
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"records are not marked", []string{"keep", "wake all", "onlooker"}, renews(func(_ *bent, r *driver.Renewal) { r.Keep = false })},
		{"long lives wrap around", []string{"huge TTL"}, lives(func(d time.Duration) time.Duration {
			if d > 1<<61 {
				return 1
			}
			return d
		})},
		{"long places wrap around", []string{"huge place"}, asks(func(_ *bent, r *driver.Request) {
			if r.Place > 1<<62 {
				r.Place = 1
			}
		})},
		{"a restart forgets", []string{"restart"}, func(b *bent) { b.restart = func() driver.Store { return newBent() } }},
		{"asking again restarts no TTL", []string{"again", "again shorter"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && !c.Waiting {
				r.TTL = c.Left
			}
		})},
		{"asking again is a second claim", []string{"again", "heavier", "one owner"}, asks(func(b *bent, r *driver.Request) {
			if c, ok := b.on(r.ID); ok && !c.Waiting {
				r.Owner += "2"
			}
		})},
		{"asking again raises the weight", []string{"heavier"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if c, ok := b.on(r.ID); ok && !c.Waiting && r.Weight > c.Weight {
					_ = b.mem.Release(ctx, r.ID)
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"asking again needs room under the limit", []string{"lower limit"}, refuses(func(_ *bent, r driver.Request, res driver.Result) bool { return res.Used > r.Limit })},
		{"asking again stands in line", []string{"again in line"}, refuses(func(_ *bent, _ driver.Request, res driver.Result) bool { return res.Behind > 0 })},
		{"asking again changes the holder", []string{"as it was"}, tells(func(b *bent, cs []driver.Claim) []driver.Claim {
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := range cs {
				for id, r := range b.asked {
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
				for id := range b.asked {
					if _, ok := b.on(id); ok && id.Owner == r.Owner && err == nil && !res.Granted {
						return driver.Result{Granted: true, Fence: 1, Used: res.Used}, nil
					}
				}
				return res, err
			}
		}},
	}
}

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
		{"a fence is used again", []string{"fence", "shared fence", "race", "restart"}, numbered(func(*bent, driver.Request) uint64 { return 1000 })},
		{"fences count what is live", []string{"fence", "shared fence", "idle fence"}, numbered(func(b *bent, r driver.Request) uint64 {
			cs, _ := b.mem.Show(context.Background(), r.Key)
			return uint64(len(cs)) * driver.Span
		})},
		{"fences rise by one", []string{"fence", "shared fence"}, func(b *bent) {
			var n uint64
			numbered(func(*bent, driver.Request) uint64 { n++; return n })(b)
		}},
		{"fences are forgotten with an idle key", []string{"idle fence", "remembered"}, forgetful(10 * time.Minute)},
		{"fences of shared claims lag behind", []string{"shared fence"}, func(b *bent) {
			var last uint64
			numbered(func(_ *bent, r driver.Request) uint64 {
				if r.Weight == driver.Whole || last == 0 {
					last += driver.Span
				}
				return last
			})(b)
		}},
		{"fences leave the float64s", []string{"exclusive"}, numbered(func(*bent, driver.Request) uint64 { return driver.MaxFence })},
		{"Floor is ignored", []string{"floor"}, asks(func(_ *bent, r *driver.Request) { r.Floor = 0 })},
		{"Floor is told and not kept", []string{"floor", "remembered"}, func(b *bent) {
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
		{"Floor too far is cut", []string{"floor too far"}, asks(func(_ *bent, r *driver.Request) {
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
	}
}

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

func nameFaults() []fault {
	opaque := []string{"opaque names"}
	return []fault{
		{"keys are folded to lower case", opaque, keyed(strings.ToLower)},
		{"keys are trimmed", opaque, keyed(strings.TrimSpace)},
		{"keys are paths", opaque, keyed(path.Clean)},
		{"keys are valid UTF-8", opaque, keyed(func(s string) string { return strings.ToValidUTF8(s, "\ufffd") })},
		{"keys end at NUL", opaque, keyed(func(s string) string { s, _, _ = strings.Cut(s+"\x00", "\x00"); return s + "." })},
		{"keys are cut", opaque, keyed(func(s string) string { return s[:min(len(s), driver.MaxKey-1)] })},
		{"keys are composed", opaque, keyed(func(s string) string { return strings.ReplaceAll(s, "e\u0301", "é") })},
		{"keys are unescaped", opaque, keyed(func(s string) string {
			if u, err := url.PathUnescape(s); err == nil {
				return u
			}
			return s
		})},
		{"keys lose their braces", opaque, keyed(func(s string) string { return "." + strings.Trim(s, "{}") })},
		{"owners are folded", []string{"opaque owners"}, named(func(id driver.ID) driver.ID {
			return driver.ID{Key: id.Key, Owner: strings.ToLower(id.Owner)}
		})},
		{"bad names are taken", []string{"bad names"}, keyed(func(s string) string { return ("." + s)[:min(len(s)+1, driver.MaxKey)] })},
		{"no TTL means a second", []string{"invalid", "invalid renewal"}, both(
			asks(func(_ *bent, r *driver.Request) { r.TTL = max(r.TTL, time.Second) }),
			renews(func(_ *bent, r *driver.Renewal) { r.TTL = max(r.TTL, time.Second) }))},
		{"a weight of 0 is free", []string{"invalid"}, asks(func(_ *bent, r *driver.Request) { r.Weight = max(r.Weight, 1) })},
		{"what is invalid is done all the same", []string{"invalid"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if errors.Is(err, driver.ErrInvalid) {
					r.Weight, r.Limit, r.Value = 1, driver.Whole, nil
					_, _ = b.mem.Acquire(ctx, r)
				}
				return res, err
			}
		}},
		{"what is invalid is refused", []string{"invalid", "bad names", "floor too far"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if errors.Is(err, driver.ErrInvalid) {
					return driver.Result{}, nil
				}
				return res, err
			}
		}},
	}
}

func tellFaults() []fault {
	owners := func(b *bent, cs []driver.Claim) []driver.Claim {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range cs {
			for id := range b.asked {
				if driver.Tag(id.Owner) == cs[i].Owner {
					cs[i].Party = id.Owner
				}
			}
		}
		return cs
	}
	return []fault{
		{"owners are shown", []string{"owner"}, tells(owners)},
		{"owners are in errors", []string{"owner"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				if err := b.mem.Release(ctx, id); err != nil {
					return fmt.Errorf("%w: %s", err, id.Owner)
				}
				return nil
			}
		}},
		{"blockers tell owners", []string{"owner", "retry"}, answers(func(b *bent, _ driver.Request, res *driver.Result) {
			if c := owners(b, []driver.Claim{res.Blocker})[0]; !res.Granted {
				res.Blocker.Owner = c.Party
			}
		})},
		{"values are lost", []string{"value"}, asks(func(_ *bent, r *driver.Request) { r.Value = nil })},
		{"values are cut at NUL", []string{"value"}, asks(func(_ *bent, r *driver.Request) { r.Value, _, _ = slicesCut(r.Value) })},
		{"renew clears the value", []string{"value"}, renews(func(_ *bent, r *driver.Renewal) {
			if r.Value == nil {
				r.Value = []byte{}
			}
		})},
		{"an empty value is no value", []string{"value"}, renews(func(_ *bent, r *driver.Renewal) {
			if len(r.Value) == 0 {
				r.Value = nil
			}
		})},
		{"values are made up", []string{"no value"}, asks(func(_ *bent, r *driver.Request) {
			if r.Value == nil {
				r.Value = []byte("null")
			}
		})},
		{"the youngest is shown first", []string{"show"}, tells(func(_ *bent, cs []driver.Claim) []driver.Claim { slices.Reverse(cs); return cs })},
		{"the line is not shown", []string{"show"}, tells(func(_ *bent, cs []driver.Claim) []driver.Claim {
			return slices.DeleteFunc(cs, func(c driver.Claim) bool { return c.Waiting })
		})},
		{"held begins anew", []string{"show"}, tells(func(_ *bent, cs []driver.Claim) []driver.Claim {
			for i := range cs {
				cs[i].Held = 0
			}
			return cs
		})},
		{"the prefix is a pattern", []string{"list"}, func(b *bent) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
				first, _, _ := strings.Cut(prefix, "_")
				return b.mem.List(ctx, first)
			}
		}},
		{"the prefix is folded", []string{"list"}, func(b *bent) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
				return func(yield func(driver.Claim, error) bool) {
					for c, err := range b.mem.List(ctx, "") {
						if strings.HasPrefix(strings.ToLower(c.Key), strings.ToLower(prefix)) && !yield(c, err) {
							return
						}
					}
				}
			}
		}},
		{"Break ends nothing", []string{"break", "fence", "wake by break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key, _ string) ([]driver.Claim, error) { return b.mem.Show(ctx, key) }
		}},
		{"Break ends the line", []string{"break", "wake by break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key, reason string) ([]driver.Claim, error) {
				for _, w := range b.line(key) {
					_ = b.mem.Release(ctx, w.ID)
				}
				return b.mem.Break(ctx, key, reason)
			}
		}},
		{"Break tells nothing", []string{"break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key, reason string) ([]driver.Claim, error) {
				_, err := b.mem.Break(ctx, key, reason)
				return nil, err
			}
		}},
		{"Break tells another reason", []string{"break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key, _ string) ([]driver.Claim, error) {
				return b.mem.Break(ctx, key, "because")
			}
		}},
		{"RenewAll ends at the first that is dead", []string{"renew all"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out := make([]driver.Renewed, len(rs))
				var dead error
				for i, r := range rs {
					if out[i].Err = dead; dead == nil {
						out[i].Behind, out[i].Err = b.mem.Renew(ctx, r)
						dead = out[i].Err
					}
				}
				return out
			}
		}},
		{"RenewAll answers out of order", []string{"renew all"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out := b.mem.RenewAll(ctx, rs)
				slices.Reverse(out)
				return out
			}
		}},
		{"RenewAll leaves some out", []string{"crowd"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out := b.mem.RenewAll(ctx, rs[:min(len(rs), 256)])
				for range rs[len(out):] {
					out = append(out, driver.Renewed{Err: driver.ErrNotHeld})
				}
				return out
			}
		}},
	}
}

func slicesCut(v []byte) (before, after []byte, found bool) {
	if i := slices.Index(v, 0); i >= 0 {
		return v[:i], v[i:], true
	}
	return v, nil, false
}

func manyFaults() []fault {
	// orphan grants to nobody when the call is given up.
	orphan := func(b *bent, ctx context.Context, r driver.Request) (driver.Result, error) {
		if err := ctx.Err(); err != nil {
			r.Owner += "-orphan"
			_, _ = b.mem.Acquire(context.WithoutCancel(ctx), r)
			return driver.Result{}, err
		}
		return b.mem.Acquire(ctx, r)
	}
	return []fault{
		{"a dead ctx leaves an orphan", []string{"cancel"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) { return orphan(b, ctx, r) }
		}},
		{"a dead ctx is taken for a refusal to work", []string{"cancel"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				if ctx.Err() != nil {
					return 0, driver.ErrNotHeld
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"a call cut off leaves an orphan", []string{"cut off"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
				return orphan(b, ctx, r)
			}
		}},
		{"looks, then acts", []string{"race"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if err := r.Validate(b.Features()); err != nil {
					return driver.Result{}, err
				}
				cs, _ := b.mem.Show(ctx, r.Key)
				var used int64
				for _, c := range cs {
					used += c.Weight
				}
				runtime.Gosched()
				if used+r.Weight <= r.Limit {
					r.Weight, r.Limit = 1, driver.Whole
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"every key is remembered", []string{"leak"}, func(b *bent) {
			keys := map[string]bool{}
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				b.mu.Lock()
				keys[r.Key] = true
				b.leftovers = len(keys)
				b.mu.Unlock()
				return b.mem.Acquire(ctx, r)
			}
		}},
	}
}
