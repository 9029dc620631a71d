package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
)

// An allowed is a call that a limiter allowed, at some moment between call and return.
type allowed struct{ call, back time.Time }

// Processes pass as fast as possible. No window has more passes than the limit, even if each pass
// counts at any moment between its call and its return. The passes of all windows use at least half
// of the limit.
func TestLimiter_neverOver(t *testing.T) {
	t.Parallel()
	// The second limiter takes shares of three passes.
	for _, tt := range []struct{ n, weight int64 }{{5, 1}, {3000, 20}} {
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) { neverOver(t, tt.n, tt.weight) })
	}
}

func neverOver(t *testing.T, n, weight int64) {
	onEach(t, counts, func(t *testing.T, url string) {
		window := max(time.Second, store(t, url).Features().MinTTL)
		var mu sync.Mutex
		var all []allowed
		var wg sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), 2*soon)
		defer stop()
		// All are open before the first pass, because Open may time out on a SQLite file in
		// constant use.
		limiters := make([]*distlock.Limiter, 3)
		for i := range limiters {
			var err error
			if limiters[i], err = locker(t, url).Limiter(n, window); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range limiters {
			wg.Go(func() {
				for ctx.Err() == nil {
					call := time.Now()
					switch err := m.Wait(ctx, "x", distlock.Weight(weight)); {
					case err == nil:
						mu.Lock()
						all = append(all, allowed{call, time.Now()})
						mu.Unlock()
					case errors.Is(err, distlock.ErrLimited):
					case errors.Is(err, distlock.ErrUnavailable), errors.Is(err, distlock.ErrUnknown): // the machine is busy
					case ctx.Err() == nil:
						t.Error(err)
					}
				}
			})
		}
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return 2*int64(len(all)) >= n/weight
		}
		for time.Sleep(5 * window / 2); !enough() && ctx.Err() == nil; { // a slow machine takes longer
			time.Sleep(window / 100)
		}
		stop()
		wg.Wait()
		checkPasses(t, all, n/weight, window)
	})
}

// checkPasses checks that no window has more than n passes that surely lie within it.
func checkPasses(t *testing.T, all []allowed, n int64, window time.Duration) {
	t.Helper()
	// Clocks of servers count in milliseconds, at slightly different rates.
	const slack = 10 * time.Millisecond
	slices.SortFunc(all, func(a, b allowed) int { return a.call.Compare(b.call) })
	most := 0
	for i, first := range all {
		sure := 0
		for _, p := range all[i:] {
			if p.call.Sub(first.call) >= window {
				break
			}
			if p.back.Sub(first.call) < window-slack {
				sure++
			}
		}
		most = max(most, sure)
	}
	if most > int(n) {
		t.Errorf("%d passed within %v, and the limit is %d", most, window, n)
	}
	if 2*len(all) < int(n) {
		t.Errorf("%d passed in many windows, and the limit is %d", len(all), n)
	}
	t.Logf("%d passed, at most %d of them in one window; the limit is %d", len(all), most, n)
}
