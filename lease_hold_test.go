package distlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func TestLease_maxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyStore()
		l := lockerOn(t, w, distlock.TTL(10*time.Second))
		begin := time.Now()
		lease := taken(t, l, "x", distlock.MaxHold(time.Minute))
		ctx := lease.Context(t.Context())
		<-ctx.Done()
		if got := time.Since(begin); got != time.Minute {
			t.Errorf("ended after %v", got)
		}
		wantErr(t, context.Cause(ctx), distlock.ErrMaxHold, distlock.ErrLost)
		wantLoss(t, lease.Err(), distlock.LossMaxHold)
		n := w.count("renew")
		wantErr(t, lease.Unlock(t.Context()), distlock.ErrMaxHold)
		if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("free at once: %v", err) // the work may still run: the claim must expire
		}
		time.Sleep(10 * time.Second)
		taken(t, l, "x")
		if got := w.count("renew"); got != n || w.count("release") != 0 {
			t.Errorf("%d renewals after the end, %d releases", got-n, w.count("release"))
		}
	})
}

func TestLease_maxHold_isNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := taken(t, lockerOn(t, newFlakyStore()), "x", distlock.MaxHold(time.Minute))
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(lease.Until()); left != time.Minute {
			t.Errorf("%v left", left)
		}
	})
}

func TestLease_minHold(t *testing.T) {
	t.Run("an early Unlock keeps the key for the rest", func(t *testing.T) {
		for _, minHold := range []time.Duration{10 * time.Second, time.Hour} { // below and above the TTL
			synctest.Test(t, func(t *testing.T) {
				w := newFlakyStore()
				l, other := lockerOn(t, w), lockerOn(t, w)
				begin := time.Now()
				lease := taken(t, l, "x", distlock.MinHold(minHold))
				time.Sleep(time.Second)
				if err := lease.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantErr(t, lease.Err(), distlock.ErrReleased)
				if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
					t.Errorf("free at once: %v", err)
				}
				if _, err := other.Lock(t.Context(), "x"); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begin); got < minHold || got > minHold+10*time.Millisecond {
					t.Errorf("free after %v, want %v", got, minHold)
				}
				if n := w.count("release"); n != 0 {
					t.Errorf("%d releases", n)
				}
			})
		}
	})
	t.Run("a late Unlock frees at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newFlakyStore(), distlock.MinHold(time.Minute))
			lease := taken(t, l, "x")
			time.Sleep(time.Minute)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			taken(t, l, "x")
		})
	})
	t.Run("a loss is a loss", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.MinHold(time.Minute)), "x")
			_, _ = driver.Break(t.Context(), w, "x", 0, "no more")
			wantLoss(t, lease.Unlock(t.Context()), distlock.LossBroken)
		})
	})
}

func TestLease_lockDelay(t *testing.T) {
	t.Run("a clean release frees at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newFlakyStore(), distlock.LockDelay(time.Minute))
			if err := taken(t, l, "x").Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			taken(t, l, "x")
		})
	})
	t.Run("after a loss the key stays closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			l, other := lockerOn(t, w, distlock.LockDelay(time.Minute), distlock.TTL(10*time.Second)), lockerOn(t, w.Store)
			begin := time.Now()
			lease := taken(t, l, "x")
			w.cut()
			<-lease.Done()
			if got := time.Since(begin); got != trustOf(10*time.Second) {
				t.Errorf("lost after %v", got)
			}
			wantErr(t, lease.Unlock(t.Context()), distlock.ErrLost)
			if _, err := other.Lock(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got < 70*time.Second || got > 71*time.Second {
				t.Errorf("free after %v, want 1m10s", got)
			}
		})
	})
	t.Run("is kept by renewals and by Extend", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.LockDelay(time.Minute)), "x")
			time.Sleep(time.Hour)
			if err := lease.Extend(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) != 1 || claims[0].Left != 70*time.Second {
				t.Errorf("the store has %+v", claims)
			}
		})
	})
}
