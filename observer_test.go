package distlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A call whose observer panics holds no lock afterwards, and no call of this process or of another
// one waits for it.
func TestObserver_panics(t *testing.T) {
	lock := func(ctx context.Context, l *distlock.Locker) { _, _ = l.Lock(ctx, "k") }
	lockAll := func(ctx context.Context, l *distlock.Locker) { _, _ = l.LockAll(ctx, []string{"j", "k"}) }
	downgrade := func(ctx context.Context, l *distlock.Locker) {
		if lease, err := l.Lock(ctx, "k"); err == nil {
			_, _ = lease.Downgrade(ctx)
		}
	}
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, l *distlock.Locker)
		kind distlock.EventType
		nth  int
		held time.Duration // how long another process holds the lock
		late time.Duration // how long the observer sleeps
	}{
		{"granted by the store", lock, distlock.EventAttempted, 1, 0, 0},
		{"refused by the store", lock, distlock.EventAttempted, 1, time.Second, 0},
		{"waiting", lock, distlock.EventWaiting, 1, time.Second, 0},
		{"waiting and granted", lock, distlock.EventWaiting, 1, time.Second, 2 * time.Second},
		{"granted", lock, distlock.EventGranted, 1, 0, 0},
		{"granted after a wait", lock, distlock.EventGranted, 1, time.Second, 0},
		{"one of two granted", lockAll, distlock.EventGranted, 2, 0, 0},
		{"writer handed off", downgrade, distlock.EventHandedOff, 1, 0, 0},
		{"reader granted", downgrade, distlock.EventGranted, 2, 0, 0},
		{"lowered by the store", downgrade, distlock.EventAttempted, 2, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				rival, seen := g.locker(t), 0
				l := g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
					if e.Type != c.kind {
						return
					}
					if seen++; seen == c.nth {
						time.Sleep(c.late)
						panic("observer")
					}
				}))
				if c.held > 0 {
					first := must(t)(rival.Lock(t.Context(), "k"))
					time.AfterFunc(c.held, func() { free(t, first) })
				}
				if got := recovered(func() { c.do(t.Context(), l) }); got != "observer" {
					t.Errorf("the caller recovered %v", got)
				}
				time.Sleep(time.Minute) // a claim without an owner has expired
				g.empty(t, l, rival)
				free(t, must(t)(l.Lock(t.Context(), "k", distlock.MaxWait(time.Second))))
			})
		})
	}
}

// Calls that wait for a call whose observer panics continue when that call has ended.
func TestObserver_panics_othersGoOn(t *testing.T) {
	panics := distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventAttempted {
			panic("observer")
		}
	})
	for name, acquire := range map[string]func(ctx context.Context, l *distlock.Locker, m *distlock.Limiter, opts ...distlock.Option) error{
		"lock": func(ctx context.Context, l *distlock.Locker, _ *distlock.Limiter, opts ...distlock.Option) error {
			_, err := l.Lock(ctx, "k", opts...)
			return err
		},
		"shares": func(ctx context.Context, _ *distlock.Locker, m *distlock.Limiter, opts ...distlock.Option) error {
			return m.Allow(ctx, "k", opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				m := limiter(t, l, 2000, time.Minute)
				g.set(func(g *gate) {
					g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
						time.Sleep(time.Millisecond)
						return next(ctx, r)
					}
				})
				panicked, answer := make(chan any, 1), make(chan error, 1)
				go func() { panicked <- recovered(func() { _ = acquire(t.Context(), l, m, panics) }) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { answer <- acquire(ctx, l, m) }()
				if got := <-panicked; got != "observer" {
					t.Errorf("the caller recovered %v", got)
				}
				if err := <-answer; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// recovered runs f and returns the value of its panic.
func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
