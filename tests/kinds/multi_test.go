package kinds_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Processes that take the same names in any order get on, and exclude each other on every name.
func TestLocker_LockAll(t *testing.T) {
	t.Parallel()
	onEach(t, whatever, func(t *testing.T, url string) {
		names := []string{"a", "b", "c"}
		var held [3]atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
		defer cancel()
		var wg sync.WaitGroup
		for p := range 3 {
			l := locker(t, url)
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), 1))
				for range 10 {
					order := rng.Perm(3)[:2]
					leases, err := steady(l.LockAll)(ctx, []string{names[order[0]], names[order[1]]})
					if err != nil {
						t.Error(err)
						return
					}
					for _, i := range order {
						if n := held[i].Add(1); n != 1 {
							t.Errorf("%d have %s", n, names[i])
						}
					}
					for _, i := range order {
						held[i].Add(-1)
					}
					if err := leases.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		l := locker(t, url)
		leases, err := steady(l.TryLockAll)(ctx, names)
		if err != nil {
			t.Fatalf("something is left: %v", err)
		}
		if err := leases.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
