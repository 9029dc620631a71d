package postgres

import (
	"context"
	"sync"
	"testing"
	"time"
)

// gather waits for the callers of the last batch in addition to the waiting calls, but not if they
// do not come.
func TestBatcher_gather(t *testing.T) {
	t.Parallel()
	const half = together / 2
	for name, tt := range map[string]struct{ last, queued, back, want int }{
		"all come back":                     {half, 0, half, half},
		"all come back to those who waited": {half, half, half, together},
		"one comes back to one":             {1, 1, 1, 2},
		"some come back":                    {half, 0, 3, 3},
		"nobody comes back":                 {half, half, 0, half},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := 0
			for range 20 { // callers may be late if all cores are busy
				if got = gathered(t, tt.last, tt.queued, tt.back); got == tt.want {
					return
				}
			}
			t.Errorf("it went out with %d, want %d", got, tt.want)
		})
	}
}

// gathered returns how many calls wait after gather, if last calls went out before, queued calls
// wait already and back calls arrive.
func gathered(t *testing.T, last, queued, back int) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := newBatcher(nil)
	b.running = true // so that calls wait
	var wg sync.WaitGroup
	come := func(n int) {
		for range n {
			wg.Go(func() { _ = b.do(ctx, &call{}) })
		}
	}
	come(queued)
	for n := 0; n < queued; n, _ = b.waiting() {
		time.Sleep(time.Microsecond)
	}
	come(back)
	b.gather(last)
	n, _ := b.waiting()
	cancel()
	wg.Wait()
	return n
}
