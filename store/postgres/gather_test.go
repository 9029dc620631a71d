package postgres

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Those who were answered together are waited for, beside those who came meanwhile, and not for long.
func TestLane_gather(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		last, queued, back int
		want               time.Duration
	}{
		"one was answered":                   {1, 0, 0, 0},
		"all come back":                      {8, 0, 8, 0},
		"all come back to those who waited":  {8, 8, 8, 0},
		"nobody comes back":                  {8, 0, 0, maxGather},
		"nobody comes back to those waiting": {8, 8, 0, maxGather},
		"one does not come back":             {8, 3, 7, maxGather},
		"as many wait as go out together":    {8, together, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				l := newLane(nil)
				l.running = true // so that calls wait
				come := func(n int) {
					for range n {
						l.wg.Go(func() { _ = l.do(ctx, &call{}) })
					}
					synctest.Wait()
				}
				come(tt.queued)
				began := time.Now()
				var took time.Duration
				l.wg.Go(func() {
					l.gather(tt.last, time.Second)
					took = time.Since(began)
				})
				synctest.Wait()
				come(tt.back)
				time.Sleep(time.Second)
				cancel()
				l.wg.Wait()
				if took != tt.want {
					t.Errorf("it waited for %v, want %v", took, tt.want)
				}
			})
		})
	}
}
