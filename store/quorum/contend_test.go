package quorum_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// TestStore_split_votes lets clients contend for one key, and counts the attempts for each grant.
func TestStore_split_votes(t *testing.T) {
	for _, clients := range []int{2, 3, 5, 10} {
		bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
			const each = 20
			var mu sync.Mutex
			attempts, grants := 0, 0
			var longest time.Duration
			var wg sync.WaitGroup
			began := time.Now()
			for i := range clients {
				p := c.peer(t, fmt.Sprint("peer", i), options{nodes: 3, latency: near})
				wg.Go(func() {
					for range each {
						r := exclusive("key", ttl)
						wake := driver.Watch(t.Context(), p.store, r.ID)
						start := time.Now()
						for {
							res, err := p.store.Acquire(t.Context(), r)
							mu.Lock()
							attempts++
							mu.Unlock()
							if err == nil && res.Granted {
								break
							}
							select {
							case <-wake:
							case <-time.After(time.Second):
							}
						}
						mu.Lock()
						grants++
						longest = max(longest, time.Since(start))
						mu.Unlock()
						time.Sleep(near)
						if err := p.store.Release(t.Context(), r.ID); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			took := time.Since(began)
			t.Logf("%2d clients: %d grants in %v (%v each), %.1f attempts a grant, longest wait %v",
				clients, grants, took, took/time.Duration(grants), float64(attempts)/float64(grants), longest)
			if per := took / time.Duration(grants); per > 100*near {
				t.Errorf("%d clients: a grant took %v, want far less than a poll", clients, per)
			}
		})
	}
}
