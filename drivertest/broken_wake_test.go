package drivertest

import (
	"context"

	"github.com/distlock/distlock/driver"
)

// wakeFaults are wrong about whom they wake.
func wakeFaults() []fault {
	return []fault{
		{"everybody is woken", []string{"wake"}, func(b *bent) {
			b.watch = func(ctx context.Context, id driver.ID) <-chan driver.Wake {
				return b.mem.Watch(ctx, driver.ID{Key: id.Key})
			}
		}},
		{"nobody is woken", []string{"wake", "wake by room", "wake in turn", "wake all", "wake by break", "onlooker"}, func(b *bent) {
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
		{"a wake-up tells of a grant that is none", []string{"told"}, func(b *bent) {
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
		{"Break wakes no onlooker", []string{"onlooker"}, func(b *bent) {
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
