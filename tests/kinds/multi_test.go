package kinds_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
)

// Processes that take the same names in any order make progress, and exclude each other on every
// name.
func TestLocker_LockAll(t *testing.T) {
	t.Parallel()
	onEach(t, anyStore, func(t *testing.T, url string) {
		// A slow majority may keep parts of a cancelled request until they expire. It does not use
		// a node again for the same call while a release there is unanswered. Calls are therefore
		// bounded and repeated.
		const ttl = 2 * soon
		leftovers := time.Duration(0)
		if !store(t, url).Features().Queue {
			leftovers = 2 * ttl
		}
		names := []string{"a", "b", "c"}
		var held [3]atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 12*soon)
		defer cancel()
		var wg sync.WaitGroup
		for p := range 3 {
			l := locker(t, url, distlock.TTL(ttl))
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), 1))
				for range 10 {
					order := rng.Perm(3)[:2]
					leases, err := steady(l.LockAll)(ctx, []string{names[order[0]], names[order[1]]},
						distlock.MaxWait(3*soon))
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
					unlock(t, leases)
				}
			})
		}
		wg.Wait()
		l := locker(t, url)
		leases, err := steady(l.LockAll)(t.Context(), names, distlock.MaxWait(leftovers))
		if err != nil {
			t.Fatalf("a lock is left: %v", err)
		}
		unlock(t, leases)
	})
}
