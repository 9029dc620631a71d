package distlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A reader whose renewal succeeds only at the last moment keeps a writer out for as long as it
// reads.
func TestLocker_RLock_renewedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		const ttl = 3 * time.Second
		a, b := g.locker(t, distlock.TTL(ttl)), g.locker(t)
		reader := must(t)(a.RLock(t.Context(), "k"))
		writer := begin(t.Context(), b.Lock, "k").waits(t)
		g.set(func(g *gate) {
			g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, driver.ErrUnavailable }
		})
		time.Sleep(ttl * 5 / 6) // it is trusted for nine tenths
		g.thaw()
		time.Sleep(5 * ttl)
		if err := reader.Err(); err != nil {
			t.Fatal(err)
		}
		writer.waits(t)
		free(t, reader)
		free(t, writer.now(t))
		g.empty(t, a, b)
	})
}

// An Extend that is under way must not leave the claim a shorter TTL than the reader trusts.
func TestLease_Downgrade_crossesExtend(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a := g.locker(t, distlock.TTL(3*time.Second))
		b, err := distlock.New(g.Store) // its store stays reachable
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		writer := must(t)(a.Lock(t.Context(), "k"))
		g.set(func(g *gate) {
			g.renew = func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error) {
				time.Sleep(10 * time.Millisecond)
				return next(ctx, r)
			}
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				time.Sleep(50 * time.Millisecond)
				return next(ctx, r)
			}
		})
		extended := make(chan error, 1)
		go func() { extended <- writer.Extend(context.Background(), time.Minute) }()
		synctest.Wait()
		reader := must(t)(writer.Downgrade(t.Context()))
		<-extended
		g.freeze()
		for reader.Valid(0) {
			if next, err := b.TryLock(t.Context(), "k"); err == nil {
				t.Errorf("a reader is trusted for another %v at the same time as a writer", time.Until(reader.Until()))
				free(t, next)
				break
			}
			time.Sleep(time.Second)
		}
		g.thaw()
	})
}

// A downgrade that hangs leaves time for another attempt.
func TestLease_Downgrade_hangsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(3*time.Second))
		writer := must(t)(l.Lock(t.Context(), "k"))
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
				g.thaw()
				<-ctx.Done()
				return driver.Result{}, ctx.Err()
			}
		})
		free(t, must(t)(writer.Downgrade(t.Context())))
		g.empty(t, l)
	})
}
