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
			lease := taken(t, lockerOn(t, newFlakyStore()), "x")
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
			lease := taken(t, lockerOn(t, newFlakyStore()), "x")
			ctx := lease.Context(t.Context())
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			grandchild := lease.Context(child)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range []context.Context{ctx, child, grandchild, lease.Context(t.Context())} {
				if !isClosed(c.Done()) || !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), distlock.ErrReleased) {
					t.Errorf("%v %v", c.Err(), context.Cause(c))
				}
			}
		})
	})
	t.Run("ends before another can hold the lock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newFlakyStore())
			lease := taken(t, l, "x")
			ctx := lease.Context(t.Context())
			go func() {
				next, err := l.Lock(t.Context(), "x")
				if err != nil || !isClosed(ctx.Done()) {
					t.Errorf("%v: the work of the holder before has not ended", err)
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
			l := lockerOn(t, newFlakyStore())
			a, b := taken(t, l, "a"), taken(t, l, "b")
			parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), time.Minute)
			defer cancel()
			ctx := a.Context(parent)
			if distlock.FromContext(parent) != nil || distlock.FromContext(noContext) != nil {
				t.Error("a lease in a context without one")
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
	t.Run("of a lease that has expired", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
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

// A lease keeps no reference to contexts that have ended, nor to their values.
func TestLease_Context_leavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		lease := taken(t, lockerOn(t, newFlakyStore()), "x")
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
		if left > 1 { // the last one may still be on the stack
			t.Errorf("%d of %d contexts are left", left, len(carried))
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A context of several leases has ended for the first caller that looks at it after any of the
// leases was lost, also if no timer and no other goroutine has reported the loss yet.
func TestLease_Context_nested(t *testing.T) {
	for _, lost := range []string{"outer", "middle", "inner"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}
				defer slow.release()
				var ctx, detached context.Context = t.Context(), nil
				for _, name := range []string{"outer", "middle", "inner"} {
					var opts []distlock.Option
					if name == lost { // the observer blocks the goroutine that would report the loss
						opts = []distlock.Option{distlock.TTL(time.Second), distlock.MaxHold(10 * time.Second), distlock.Observe(slow.observe)}
					}
					lease := taken(t, lockerOn(t, newFlakyStore(), opts...), name)
					detached = lease.Context(context.WithoutCancel(ctx))
					ctx = lease.Context(ctx)
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx) // programs add their own contexts in between
					defer cancel()
					if name == "inner" {
						ctx = lease.Context(ctx)
					}
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if isClosed(ctx.Done()) {
					t.Fatal("the loss was reported: the observer does not delay it")
				}
				if ctx.Err() == nil || !isClosed(ctx.Done()) {
					t.Error("the context has not ended with the lease")
				}
				wantLoss(t, context.Cause(ctx), distlock.LossMaxHold)
				if lost != "inner" && detached.Err() != nil {
					t.Error("a context that was cut off from the lease ended with it")
				}
			})
		})
	}
}
