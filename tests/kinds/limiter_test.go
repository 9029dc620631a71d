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

// A pass is one that a limiter allowed, at some moment between two.
type pass struct{ call, back time.Time }

// Processes pass as fast as they can. In no window are there more passes than the limit, whatever moment between its call and its
// return each of them counts for; and over some windows the limit is used.
func TestLimiter_neverOver(t *testing.T) {
	t.Parallel()
	const window = time.Second
	for _, tt := range []struct{ n, weight int64 }{{5, 1}, {3000, 20}} { // the second in shares of three
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) { neverOver(t, tt.n, tt.weight, window) })
	}
}

func neverOver(t *testing.T, n, weight int64, window time.Duration) {
	onEach(t, counts, func(t *testing.T, url string) {
		var mu sync.Mutex
		var all []pass
		var wg sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), 2*soon)
		defer stop()
		// All are open before the first one passes: a SQLite file in constant use may not be opened
		// within the limit of Open.
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
						all = append(all, pass{call, time.Now()})
						mu.Unlock()
					case ctx.Err() == nil && !errors.Is(err, distlock.ErrLimited) && !errors.Is(err, distlock.ErrUnavailable): // a file may be in use for long on a busy machine
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
		judge(t, all, n/weight, window)
	})
}

func judge(t *testing.T, all []pass, n int64, window time.Duration) {
	t.Helper()
	const slack = 10 * time.Millisecond // clocks of servers count in milliseconds, and run a little differently
	slices.SortFunc(all, func(a, b pass) int { return a.call.Compare(b.call) })
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
