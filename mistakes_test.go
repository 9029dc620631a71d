package distlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/locktest"
)

// Each test makes one of the common mistakes that docs/guide.md lists, and shows the result.

// A lock without an expiry would stay with a process that has died. Every lock has an expiry.
func TestMistake_noTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		for _, ttl := range []time.Duration{0, -time.Second, 50 * time.Millisecond, 25 * time.Hour} {
			_, err := l.Lock(t.Context(), "x", distlock.TTL(ttl))
			wantInvalid(t, err, "TTL")
			_, err = distlock.New(g, distlock.TTL(ttl))
			wantInvalid(t, err, "TTL")
		}
		lease := must(t)(l.Lock(t.Context(), "x"))
		why, err := l.Status(t.Context(), distlock.KindLock, "x")
		if err != nil || why.Holders[0].Left <= 0 || why.Holders[0].Left > 30*time.Second {
			t.Errorf("a lock without the option TTL: %v, %v", why, err)
		}
		free(t, lease)
	})
}

// A process that lost its lock to another one unlocks "its" lock: the lock of the other stays.
func TestMistake_unlockAfterLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		late := must(t)(g.locker(t).Lock(ctx, "x", distlock.TTL(time.Second), distlock.NoRenewal()))
		time.Sleep(2 * time.Second)
		other := g.locker(t)
		lease := must(t)(other.Lock(ctx, "x"))
		wants(t, late.Unlock(ctx), distlock.ErrLost)
		if _, err := g.locker(t).TryLock(ctx, "x"); !errors.Is(err, distlock.ErrHeld) || lease.Err() != nil {
			t.Errorf("after the late Unlock: %v, and the lease of the other: %v", err, lease.Err())
		}
		free(t, lease)
	})
}

// The work takes longer than expected.
func TestMistake_slowWork(t *testing.T) {
	t.Run("renewed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, g *gate) {
			ctx, rival := context.Background(), g.locker(t)
			err := g.locker(t).Do(ctx, "x", func(ctx context.Context) error {
				time.Sleep(time.Hour) // a slow call, of 3,600 TTLs
				if _, err := rival.TryLock(context.Background(), "x"); !errors.Is(err, distlock.ErrHeld) {
					t.Errorf("a rival got %v", err)
				}
				return ctx.Err()
			}, distlock.TTL(time.Second))
			if err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("not renewed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, g *gate) {
			ctx, rival := context.Background(), g.locker(t)
			err := g.locker(t).Do(ctx, "x", func(ctx context.Context) error {
				<-ctx.Done() // before a rival can acquire the lock
				if _, err := rival.TryLock(context.Background(), "x"); !errors.Is(err, distlock.ErrHeld) {
					t.Errorf("when the work was cancelled a rival got %v", err)
				}
				time.Sleep(time.Hour) // the work ignores its context
				return nil
			}, distlock.TTL(time.Second), distlock.NoRenewal())
			wants(t, err, distlock.ErrLost) // Do does not report success
		})
	})
}

// All processes have the same Holder, for example a constant, or a host name in containers.
func TestMistake_sameHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		a, b := g.locker(t, distlock.Holder("worker")), g.locker(t, distlock.Holder("worker"))
		first := must(t)(a.Lock(ctx, "x"))
		for _, l := range []*distlock.Locker{a, b} {
			_, err := l.TryLock(ctx, "x")
			wants(t, err, distlock.ErrHeld)
		}
		free(t, first)
		second := must(t)(b.Lock(ctx, "x"))
		if err := first.Unlock(ctx); err != nil || second.Err() != nil { // a second Unlock does nothing, also to other leases
			t.Errorf("a second Unlock of the first: %v; the second: %v", err, second.Err())
		}
		_, err := a.TryLock(ctx, "x")
		wants(t, err, distlock.ErrHeld)
		free(t, second)
	})
}

// The TTL is hardly longer than a round trip to the store. The lease is kept, or its loss is
// reported in time. The event EventAtRisk comes before a loss.
func TestMistake_shortTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *gate) {
		store := locktest.New(t)
		log := &tape{}
		l := lockerOn(t, store, distlock.TTL(time.Second), distlock.Observe(log.observe))
		lease := taken(t, l, "x")
		store.Delay(240 * time.Millisecond) // nearly the longest time of one attempt
		time.Sleep(10 * time.Second)
		if lease.Err() != nil {
			t.Errorf("answers within a quarter of the TTL: %v", lease.Err())
		}
		store.Delay(600 * time.Millisecond) // no attempt can be answered in time
		time.Sleep(10 * time.Second)
		wants(t, lease.Err(), distlock.ErrLost)
		if len(log.all(distlock.EventAtRisk)) == 0 {
			t.Error("no event before the loss")
		}
		_ = lease.Unlock(context.Background())
	})
}

// No code releases the lock.
func TestMistake_forgottenUnlock(t *testing.T) {
	t.Run("the process ends", func(t *testing.T) {
		inBubble(t, func(t *testing.T, g *gate) {
			l := g.locker(t)
			_ = must(t)(l.Lock(t.Context(), "x"))
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
			g.expect(t, 0, 0)
		})
	})
	t.Run("the process continues", func(t *testing.T) {
		inBubble(t, func(t *testing.T, g *gate) {
			ctx := context.Background()
			lease := must(t)(g.locker(t).Lock(ctx, "x", distlock.MaxHold(time.Minute)))
			time.Sleep(2 * time.Minute)
			wants(t, lease.Err(), distlock.ErrMaxHold)
			free(t, must(t)(g.locker(t).TryLock(ctx, "x")))
		})
	})
}

// The program ignores the refusal. The nil lease acts as a lease that has ended, and Do and TryDo
// have not run the function.
func TestMistake_unhandledRefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := context.Background(), g.locker(t)
		holder := must(t)(g.locker(t).Lock(ctx, "x"))
		ran := false
		work := func(context.Context) error { ran = true; return nil }
		_, _ = l.TryDo(ctx, "x", work)
		_ = l.Do(ctx, "x", work, distlock.MaxWait(time.Second))
		if ran {
			t.Error("it ran without the lock")
		}
		lease, _ := l.TryLock(ctx, "x")
		if work := lease.Context(ctx); work.Err() == nil || lease.Err() == nil || lease.Valid(0) || lease.Fence() != 0 {
			t.Errorf("a nil lease reports that it is held: %v, fence %d", lease.Err(), lease.Fence())
		}
		wants(t, lease.Unlock(ctx), distlock.ErrReleased)
		free(t, holder)
	})
}

// A nil function is an invalid argument, and no lock is acquired for it.
func TestMistake_nilFunction(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := t.Context(), g.locker(t)
		wants(t, l.Do(ctx, "x", nil), distlock.ErrInvalid)
		_, err := l.TryDo(ctx, "x", nil)
		wants(t, err, distlock.ErrInvalid)
		_, err = distlock.DoValue[int](ctx, l, "x", nil)
		wants(t, err, distlock.ErrInvalid)
		_, err = once[int](t, l, nil).Do(ctx, "x", nil)
		wants(t, err, distlock.ErrInvalid)
		_, err = cron(t, l, nil).Run(ctx, "x", time.Now(), nil)
		wants(t, err, distlock.ErrInvalid)
		wants(t, election(t, l).Run(ctx, "e", nil), distlock.ErrInvalid)
		g.empty(t, l)
	})
}
