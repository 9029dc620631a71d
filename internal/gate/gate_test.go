package gate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// No more calls for a key pass than the size says. Another key is not concerned, and nothing is
// left.
func TestGates_Enter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gates{Size: 3}
		var inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				leave, err := g.Enter(t.Context(), "key")
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				n := inside.Add(1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				time.Sleep(time.Second)
				inside.Add(-1)
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := g.Enter(ctx, "key"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the context", err)
		}
		leave, err := g.Enter(ctx, "other")
		if err != nil && ctx.Err() == nil {
			t.Error("another key waits:", err)
		}
		if err == nil {
			leave()
		}
		wg.Wait()
		if most.Load() != 3 {
			t.Errorf("%d calls at a time, want 3", most.Load())
		}
		if len(g.keys) > 0 {
			t.Errorf("%d keys are left", len(g.keys))
		}
	})
}
