package drivertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// endFaults are wrong when a call coincides with an end, and sizeFaults with large numbers.

func endFaults() []fault {
	// unavailable reports the end of ctx as if nothing had been changed, after the change.
	unavailable := func(ctx context.Context, err error) error {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
		case <-time.After(time.Millisecond):
			return err
		}
	}
	cutOff := []string{"cut off"}
	return []fault{
		{"a renewal looks, then acts", []string{"renewed at the end"}, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				c, live := b.on(r.ID)
				time.Sleep(r.TTL / 1e5)
				if live && !c.Waiting {
					_, _ = b.mem.Renew(ctx, r)
					return 0, nil
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"a grant that was cut off is reported as unavailable", cutOff, func(b *bent) {
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				res, err := b.mem.Acquire(context.WithoutCancel(ctx), r)
				return res, unavailable(ctx, err)
			}
		}},
		{"a renewal that was cut off is reported as unavailable", cutOff, func(b *bent) {
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				n, err := b.mem.Renew(context.WithoutCancel(ctx), r)
				return n, unavailable(ctx, err)
			}
		}},
		{"a release that was cut off is reported as unavailable", cutOff, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				return unavailable(ctx, b.mem.Release(context.WithoutCancel(ctx), id))
			}
		}},
		{"a release that was cut off is sent again", cutOff, func(b *bent) {
			b.release = func(ctx context.Context, id driver.ID) error {
				err := b.mem.Release(context.WithoutCancel(ctx), id)
				if unavailable(ctx, nil) != nil {
					return b.mem.Release(context.WithoutCancel(ctx), id)
				}
				return err
			}
		}},
		{"Break looks, then acts", []string{"break and acquire"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				cs := b.held(key)
				time.Sleep(10 * time.Millisecond)
				_, err := b.mem.Break(ctx, key, upTo, reason)
				return cs, err
			}
		}},
		{"Break compares, then acts", []string{"break and grant"}, func(b *bent) {
			b.breaks = func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
				if upTo == 0 {
					return b.mem.Break(ctx, key, 0, reason)
				}
				old := slices.ContainsFunc(b.held(key), func(c driver.Claim) bool { return c.Fence <= upTo })
				time.Sleep(10 * time.Millisecond)
				if !old {
					return nil, nil
				}
				return b.mem.Break(ctx, key, 0, reason)
			}
		}},
		{"claims that end soon are swept", []string{"swept"}, func(b *bent) {
			calls := 0
			b.acquire = func(ctx context.Context, r driver.Request) (driver.Result, error) {
				b.mu.Lock()
				calls++
				sweep := calls%16 == 0
				b.mu.Unlock()
				for c := range b.mem.List(ctx, "") {
					if sweep && c.Left < time.Second && !c.Waiting {
						_, _ = b.mem.Break(ctx, c.Key, 0, "")
					}
				}
				return b.mem.Acquire(ctx, r)
			}
		}},
	}
}

func sizeFaults() []fault {
	// pages makes List omit claims that are not wanted. The argument key is the number of the key.
	pages := func(wanted func(key int, c driver.Claim) bool) func(b *bent) {
		return func(b *bent) {
			b.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
				return func(yield func(driver.Claim, error) bool) {
					key, last := 0, ""
					for c, err := range b.mem.List(ctx, prefix) {
						if c.Key != last {
							key, last = key+1, c.Key
						}
						if wanted(key, c) && !yield(c, err) {
							return
						}
					}
				}
			}
		}
	}
	return []fault{
		{"List yields a hundred keys", []string{"many keys"}, pages(func(key int, _ driver.Claim) bool { return key <= 100 })},
		{"List loses a key between pages", []string{"many keys"}, pages(func(key int, _ driver.Claim) bool { return key%251 != 250 })},
		{"List loses claims between pages", []string{"many keys"}, func(b *bent) {
			n := 0
			pages(func(key int, _ driver.Claim) bool { n++; return n%100 != 99 || key < 100 })(b)
		}},
		{"RenewAll renews the first fifty", []string{"many renewals"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out := b.mem.RenewAll(ctx, rs[:min(len(rs), 50)])
				for _, r := range rs[len(out):] {
					if _, live := b.on(r.ID); live {
						out = append(out, driver.Renewed{})
					} else {
						out = append(out, driver.Renewed{Err: driver.ErrNotHeld})
					}
				}
				return out
			}
		}},
		{"RenewAll drops the claims that exceed a packet", []string{"many slots"}, func(b *bent) {
			b.renewAll = func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
				out := b.mem.RenewAll(ctx, rs[:min(len(rs), 150)])
				for range rs[len(out):] {
					out = append(out, driver.Renewed{Err: errors.New("packet too large")})
				}
				return out
			}
		}},
		{"the queue is counted to sixteen", []string{"long queue"}, answers(func(_ *bent, _ driver.Request, res *driver.Result) {
			res.Ahead = min(res.Ahead, 16)
		})},
		{"Show ends after a hundred", []string{"long queue"}, shown(func(_ *bent, cs []driver.Claim) []driver.Claim {
			return slices.Clip(cs[:min(len(cs), 100)])
		})},
	}
}
