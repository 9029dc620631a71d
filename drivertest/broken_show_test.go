package drivertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// nameFaults are wrong about keys and owners, showFaults about Show, List, Break and RenewAll, and
// manyFaults about concurrent calls.

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
		{"a release of a bad name is invalid", []string{"bad names"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				if id.Owner == "" || id.Key == "" || len(id.Key) > driver.MaxKey {
					return driver.ErrInvalid
				}
				return b.mem.Release(ctx, id)
			}
		}},
		{"owners are cut", []string{"longest texts"}, named(func(id driver.ID) driver.ID {
			return driver.ID{Key: id.Key, Owner: id.Owner[:min(len(id.Owner), driver.MaxOwner-1)]}
		})},
		{"holders are cut", []string{"longest texts"}, requests(func(_ *bent, r *driver.Request) { r.Holder = r.Holder[:min(len(r.Holder), 255)] })},
		{"Show of a bad name is invalid", []string{"invalid key"}, func(b *bent) {
			b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
				if key == "" || len(key) > driver.MaxKey {
					return nil, driver.ErrInvalid
				}
				return b.mem.Show(ctx, key)
			}
		}},
		{"no TTL means a second", []string{"invalid", "invalid renewal"}, both(
			requests(func(_ *bent, r *driver.Request) { r.TTL = max(r.TTL, time.Second) }),
			renews(func(_ *bent, r *driver.Renewal) { r.TTL = max(r.TTL, time.Second) }))},
		{"a weight of 0 is free", []string{"invalid"}, requests(func(_ *bent, r *driver.Request) { r.Weight = max(r.Weight, 1) })},
		{"an invalid request takes effect", []string{"invalid"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if errors.Is(err, driver.ErrInvalid) {
					r.Weight, r.Limit, r.Value = 1, driver.Whole, nil
					_, _ = b.mem.Acquire(ctx, r)
				}
				return res, err
			}
		}},
		{"an invalid request is refused", []string{"invalid", "bad names", "floor too far"}, func(b *bent) {
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

func showFaults() []fault {
	owners := func(b *bent, cs []driver.Claim) []driver.Claim {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range cs {
			for id := range b.requests {
				if driver.Tag(id.Owner) == cs[i].Owner {
					cs[i].Task = id.Owner
				}
			}
		}
		return cs
	}
	return []fault{
		{"broken claims are shown", []string{"ended is not shown"}, func(b *bent) {
			broken := map[string][]driver.Claim{}
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				cs, err := b.mem.Break(ctx, key, upTo, reason)
				broken[key] = append(broken[key], cs...)
				return cs, err
			}
			b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
				cs, err := b.mem.Show(ctx, key)
				return slices.Concat(broken[key], cs), err
			}
		}},
		{"expired claims are shown", []string{"ended is not shown"}, func(b *bent) {
			last := map[string]driver.Claim{}
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(ctx, r)
				if res.Granted {
					last[r.Key], _ = b.on(r.ID)
				}
				return res, err
			}
			b.show = func(ctx context.Context, key string) ([]driver.Claim, error) {
				cs, err := b.mem.Show(ctx, key)
				if c := last[key]; len(cs) == 0 && c.Key != "" {
					cs = append(cs, c)
				}
				return cs, err
			}
		}},
		{"owners are shown", []string{"owner"}, shown(owners)},
		{"owners are in errors", []string{"owner"}, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				if err := b.mem.Release(ctx, id); err != nil {
					return fmt.Errorf("%w: %s", err, id.Owner)
				}
				return nil
			}
		}},
		{"blockers show owners", []string{"owner", "retry"}, answers(func(b *bent, _ driver.Request, res *driver.Result) {
			if c := owners(b, []driver.Claim{res.Blocker})[0]; !res.Granted {
				res.Blocker.Owner = c.Task
			}
		})},
		{"the youngest is shown first", []string{"show"}, shown(func(_ *bent, cs []driver.Claim) []driver.Claim { slices.Reverse(cs); return cs })},
		{"the queue is not shown", []string{"show"}, shown(func(_ *bent, cs []driver.Claim) []driver.Claim {
			return slices.DeleteFunc(cs, func(c driver.Claim) bool { return c.Waiting })
		})},
		{"entries are shown with fences", []string{"show"}, shown(func(_ *bent, cs []driver.Claim) []driver.Claim {
			for i := range cs {
				cs[i].Fence = max(cs[i].Fence, 1)
			}
			return cs
		})},
		{"the prefix is a pattern", []string{"list"}, func(b *bent) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
				first, _, _ := strings.Cut(prefix, "_")
				return b.mem.List(ctx, first)
			}
		}},
		{"the queue is not listed", []string{"list"}, func(b *bent) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
				return func(yield func(driver.Claim, error) bool) {
					for c, err := range b.mem.List(ctx, prefix) {
						if !c.Waiting && !yield(c, err) {
							return
						}
					}
				}
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
			b.breaks = func(ctx context.Context, key string, _ uint64, _ string) ([]driver.Claim, error) {
				return b.mem.Show(ctx, key)
			}
		}},
		{"Break spares records", []string{"record ended"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				if slices.ContainsFunc(b.held(key), func(c driver.Claim) bool { return c.Kept }) {
					return nil, nil
				}
				return b.mem.Break(ctx, key, upTo, reason)
			}
		}},
		{"Break ends the queue", []string{"break", "wake by break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				for _, w := range b.queue(key) {
					_ = b.mem.Release(ctx, w.ID)
				}
				return b.mem.Break(ctx, key, upTo, reason)
			}
		}},
		{"Break returns nothing", []string{"break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				_, err := b.mem.Break(ctx, key, upTo, reason)
				return nil, err
			}
		}},
		{"Break ignores the bound", []string{"break up to"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, _ uint64, reason string) ([]driver.Claim, error) {
				return b.mem.Break(ctx, key, 0, reason)
			}
		}},
		{"Break spares the fence of the bound", []string{"break up to"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				return b.mem.Break(ctx, key, max(upTo, 1)-1, reason)
			}
		}},
		{"Break gives another reason", []string{"break"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, _ string) ([]driver.Claim, error) {
				return b.mem.Break(ctx, key, upTo, "because")
			}
		}},
		{"RenewAll stops at the first that has ended", []string{"renew all"}, func(b *bent) {
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
		{"RenewAll brings back", []string{"ended"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out := b.mem.RenewAll(ctx, rs)
				for i, r := range rs {
					b.mu.Lock()
					was, ok := b.requests[r.ID]
					b.mu.Unlock()
					if ok && errors.Is(out[i].Err, driver.ErrNotHeld) {
						was.TTL = r.TTL
						_, out[i].Err = b.mem.Acquire(ctx, was)
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
		{"RenewAll answers the first of two equal renewals only", []string{"renew all, one twice"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out, seen := b.mem.RenewAll(ctx, rs), map[driver.ID]bool{}
				for i, r := range rs {
					if seen[r.ID] {
						out[i] = driver.Renewed{Err: driver.ErrNotHeld}
					}
					seen[r.ID] = true
				}
				return out
			}
		}},
		{"RenewAll keeps nothing", []string{"keep all"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				rs = slices.Clone(rs)
				for i := range rs {
					rs[i].Keep = false
				}
				return b.mem.RenewAll(ctx, rs)
			}
		}},
		{"RenewAll omits some", []string{"many renewals"}, func(b *bent) {
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

func manyFaults() []fault {
	// orphan grants a claim to an unknown owner when ctx has ended.
	orphan := func(b *bent, ctx context.Context, r driver.Request) (driver.Result, error) {
		if err := ctx.Err(); err != nil {
			r.Owner += "-orphan"
			_, _ = b.mem.Acquire(context.WithoutCancel(ctx), r)
			return driver.Result{}, err
		}
		return b.mem.Acquire(ctx, r)
	}
	return []fault{
		{"an ended ctx leaves an orphan", []string{"cancel"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) { return orphan(b, ctx, r) }
		}},
		{"an ended ctx is reported as not held", []string{"cancel"}, func(b *bent) {
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
		{"looks, then acts", []string{"race", "race for slots"}, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				if err := r.Validate(b.Features()); err != nil {
					return driver.Result{}, err
				}
				cs, _ := b.mem.Show(ctx, r.Key)
				var used int64
				for _, c := range cs {
					used += c.Weight
				}
				time.Sleep(time.Millisecond) // until all callers have looked
				if used+r.Weight <= r.Limit {
					r.Weight, r.Limit = 1, driver.Whole
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
		{"an undo ends the grant of another store", []string{"two stores"}, func(b *bent) {
			undoes(b)
			b.second = func() driver.Store {
				other := newBent()
				other.mem = b.mem
				undoes(other)
				return other
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

// undoes makes a store undo a grant whose call was cut off, a little later. The calls of one store
// wait for the undo, as those of a quorum do. The calls of another store do not.
func undoes(b *bent) {
	order := make(chan struct{}, 1)
	b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
		order <- struct{}{}
		res, err := b.mem.Acquire(context.WithoutCancel(ctx), r)
		select {
		case <-ctx.Done():
			go func() {
				time.Sleep(5 * time.Millisecond)
				if res.Fresh {
					_ = b.mem.Release(context.WithoutCancel(ctx), r.ID)
				}
				<-order
			}()
			return driver.Result{}, ctx.Err()
		case <-time.After(time.Millisecond):
			<-order
			return res, err
		}
	}
}
