package drivertest

import (
	"context"

	"github.com/distlock/distlock/driver"
)

// wakeFaults wake the wrong watchers.
func wakeFaults() []fault {
	return []fault{
		{"all watchers are woken", []string{"wake"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan driver.Wake {
				return b.mem.Watch(ctx, driver.ID{Key: id.Key})
			}
		}},
		{"no watcher is woken", []string{"wake", "wake by capacity", "wake the next", "wake all", "wake by break", "observer"}, func(b *bent) {
			b.watch = func(context.Context, driver.ID) <-chan driver.Wake { return make(chan driver.Wake) }
		}},
		{"a watch outlives its ctx", []string{"watch ends"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan driver.Wake {
				return b.mem.Watch(context.WithoutCancel(ctx), id)
			}
		}},
		{"a watch is closed", []string{"watch ends"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan driver.Wake {
				ch := make(chan driver.Wake)
				context.AfterFunc(ctx, func() { close(ch) })
				return ch
			}
		}},
		{"a wake-up reports a grant that is none", []string{"pushed grant"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan driver.Wake {
				in, out := b.mem.Watch(ctx, id), make(chan driver.Wake, 1)
				go func() {
					for {
						select {
						case <-in:
							select {
							case out <- driver.Wake{Granted: true, Fence: 1, Behind: 1}:
							default:
							}
						case <-ctx.Done():
							return
						}
					}
				}()
				return out
			}
		}},
		{"renewals wake", []string{"wake"}, func(b *bent) {
			woken := make(chan driver.Wake, 1)
			b.watch = func(context.Context, driver.ID) <-chan driver.Wake { return woken }
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				select {
				case woken <- driver.Wake{}:
				default:
				}
				return b.mem.Renew(ctx, r)
			}
		}},
		{"Break wakes no observer", []string{"observer"}, func(b *bent) {
			woken := make(chan driver.Wake, 1)
			wake := func() {
				select {
				case woken <- driver.Wake{}:
				default:
				}
			}
			b.watch = func(ctx context.Context, id driver.ID) <-chan driver.Wake {
				if id.Owner == "" {
					return woken
				}
				return b.mem.Watch(ctx, id)
			}
			b.release = func(ctx context.Context, id driver.ID) error {
				wake()
				return b.mem.Release(ctx, id)
			}
			b.renew = func(ctx context.Context, r driver.Renewal) (int, error) {
				wake()
				return b.mem.Renew(ctx, r)
			}
		}},
	}
}
