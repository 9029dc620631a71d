package distlock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

func TestLease_Context(t *testing.T) {
	t.Run("ends with its parent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lease := taken(t, lockerOn(t, newWire()), "x")
			parent, cancel := context.WithCancelCause(t.Context())
			ctx := lease.Context(parent)
			mine := errors.New("mine")
			cancel(mine)
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), mine)
			if err := lease.Err(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("ends with Unlock, and so do its children", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lease := taken(t, lockerOn(t, newWire()), "x")
			ctx := lease.Context(t.Context())
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			grandchild := lease.Context(child)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range []context.Context{ctx, child, grandchild, lease.Context(t.Context())} {
				if !over(c.Done()) || !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), distlock.ErrReleased) {
					t.Errorf("%v %v", c.Err(), context.Cause(c))
				}
			}
		})
	})
	t.Run("is over before another can hold the lock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newWire())
			lease := taken(t, l, "x")
			ctx := lease.Context(t.Context())
			go func() {
				next, err := l.Lock(t.Context(), "x")
				if err != nil || !over(ctx.Done()) {
					t.Errorf("%v: the work of the one before goes on", err)
					return
				}
				_ = next.Unlock(t.Context())
			}()
			synctest.Wait()
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		})
	})
	t.Run("carries values, the deadline and the innermost lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			type key struct{}
			l := lockerOn(t, newWire())
			a, b := taken(t, l, "a"), taken(t, l, "b")
			parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), time.Minute)
			defer cancel()
			ctx := a.Context(parent)
			if distlock.FromContext(parent) != nil || distlock.FromContext(noContext) != nil {
				t.Error("a lease out of nothing")
			}
			inner := b.Context(context.WithValue(ctx, key{}, 8))
			deadline, _ := inner.Deadline()
			if distlock.FromContext(ctx) != a || distlock.FromContext(inner) != b || inner.Value(key{}) != 8 || ctx.Value(key{}) != 7 ||
				time.Until(deadline) != time.Minute {
				t.Error("lost on the way")
			}
			if distlock.FromContext(context.WithoutCancel(inner)) != b {
				t.Error("lost without cancel")
			}
		})
	})
	t.Run("of a lease that is lost unseen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			ctx := lease.Context(t.Context())
			time.Sleep(time.Minute)
			wantLoss(t, context.Cause(ctx), distlock.LossExpired)
		})
	})
	t.Run("panics without a parent", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		l := lockerOn(t, mem.New())
		taken(t, l, "x").Context(noContext)
	})
}

// A lease forgets the contexts that have ended, and all that they carried.
func TestLease_Context_leavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		lease := taken(t, lockerOn(t, newWire()), "x")
		var carried []weak.Pointer[[1024]byte]
		for range 1000 {
			v := new([1024]byte)
			carried = append(carried, weak.Make(v))
			parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, v))
			_ = lease.Context(parent)
			cancel()
		}
		synctest.Wait()
		runtime.GC()
		left := 0
		for _, w := range carried {
			if w.Value() != nil {
				left++
			}
		}
		if left > 1 { // the last may still be on the stack
			t.Errorf("%d of %d contexts are left", left, len(carried))
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A context of several leases ends in the first look after one of them was lost, whichever it is,
// also if no timer and no other goroutine has reported the loss yet.
func TestLease_Context_nested(t *testing.T) {
	for _, lost := range []string{"outer", "middle", "inner"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}
				defer slow.release()
				var ctx, detached context.Context = t.Context(), nil
				for _, name := range []string{"outer", "middle", "inner"} {
					var opts []distlock.Option
					if name == lost { // the observer keeps the goroutine busy that would report the loss
						opts = []distlock.Option{distlock.TTL(time.Second), distlock.MaxHold(10 * time.Second), distlock.Observe(slow.observe)}
					}
					lease := taken(t, lockerOn(t, newWire(), opts...), name)
					detached = lease.Context(context.WithoutCancel(ctx))
					ctx = lease.Context(ctx)
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx) // programs put contexts of their own in between
					defer cancel()
					if name == "inner" {
						ctx = lease.Context(ctx)
					}
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if over(ctx.Done()) {
					t.Fatal("the loss was reported: the observer does not hold it up")
				}
				if ctx.Err() == nil || !over(ctx.Done()) {
					t.Error("the context goes on after the lease")
				}
				wantLoss(t, context.Cause(ctx), distlock.LossMaxHold)
				if lost != "inner" && detached.Err() != nil {
					t.Error("a context that was cut off from the lease ended with it")
				}
			})
		})
	}
}
