package postgres

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Those who were answered together are waited for, beside those who came meanwhile, but not if they do not come.
func TestLane_gather(t *testing.T) {
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
			for range 20 { // those who come may be late where others have the cores
				if got = gathered(t, tt.last, tt.queued, tt.back); got == tt.want {
					return
				}
			}
			t.Errorf("it went out with %d, want %d", got, tt.want)
		})
	}
}

// gathered tells how many calls wait after gather, if so many went out before it, wait already and come back.
func gathered(t *testing.T, last, queued, back int) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := newLane(nil)
	l.running = true // so that calls wait
	var wg sync.WaitGroup
	come := func(n int) {
		for range n {
			wg.Go(func() { _ = l.do(ctx, &call{}) })
		}
	}
	come(queued)
	for n := 0; n < queued; n, _ = l.waiting() {
		time.Sleep(time.Microsecond)
	}
	come(back)
	l.gather(last)
	n, _ := l.waiting()
	cancel()
	wg.Wait()
	return n
}
