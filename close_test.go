package distlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
)

// Close cancels the functions that run under a lock, and no other holder comes in before they have
// returned, unless the context of Close ends.
func TestLocker_Close_waitsForFunctions(t *testing.T) {
	const work = 50 * time.Second // after the end of the context: longer than a TTL
	for name, run := range runners {
		for _, patience := range []time.Duration{time.Hour, 20 * time.Second} {
			t.Run(name+" "+patience.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, g *gate) {
					l, began := g.locker(t), make(chan *distlock.Lease)
					ended := make(chan error, 1)
					go func() {
						ended <- run(context.Background(), l, "x", func(ctx context.Context) error {
							began <- distlock.FromContext(ctx)
							<-ctx.Done()
							if cause := context.Cause(ctx); !errors.Is(cause, distlock.ErrClosed) {
								t.Errorf("the context ended with %v", cause)
							}
							time.Sleep(work)
							return nil
						})
					}()
					lease := <-began
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					start := time.Now()
					time.AfterFunc(min(work, patience)-time.Second, func() {
						if err := lease.Err(); err != nil {
							t.Errorf("the lease ended before the function: %v", err)
						}
					})
					if err := l.Close(ctx); err != nil {
						t.Error(err)
					}
					if took := time.Since(start); took != min(work, patience) {
						t.Errorf("Close took %v", took)
					}
					if err := lease.Err(); !errors.Is(err, distlock.ErrReleased) {
						t.Errorf("the lease after Close: %v", err)
					}
					switch err := <-ended; {
					case name == "Election.Run":
						wants(t, err, distlock.ErrClosed)
					case patience < work && (name == "Once.Do" || name == "Cron.Run"):
						wants(t, err, distlock.ErrNotRecorded)
					case patience < work: // the function ended without the lock
						wants(t, err, distlock.ErrReleased)
					case err != nil:
						t.Error(err)
					}
				})
			})
		}
	}
}

// A function whose lock is granted while Close begins does not run.
func TestLocker_Close_beforeTheFunction(t *testing.T) {
	for name, run := range runners {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				var l *distlock.Locker
				l = g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
					if e.Type == distlock.EventGranted {
						go func() { _ = l.Close(context.Background()) }()
						synctest.Wait()
					}
				}))
				err := run(context.Background(), l, "x", func(context.Context) error { t.Error("it ran"); return nil })
				wants(t, err, distlock.ErrClosed, distlock.ErrNotAcquired)
			})
		})
	}
}

// A function that has released its lock itself does not block Close.
func TestLocker_Close_afterUnlock(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		err := l.Do(t.Context(), "x", func(ctx context.Context) error {
			free(t, distlock.FromContext(ctx))
			return l.Close(context.Background())
		})
		if err != nil {
			t.Error(err)
		}
	})
}
