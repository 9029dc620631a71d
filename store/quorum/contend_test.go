package quorum_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
)

// TestStore_split_votes lets clients contend for one key, and counts the attempts for each grant.
func TestStore_split_votes(t *testing.T) {
	for _, clients := range []int{2, 3, 5, 10} {
		bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
			each := 20
			if testing.Short() { // under the race detector
				each = 5
			}
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

// TestStore_split_votes_down splits the votes of the nodes that are up. Nobody can win, and nobody
// waits for the node that is down, except the first attempt, which does not know.
func TestStore_split_votes_down(t *testing.T) {
	for name, trouble := range map[string]func(l *chaos.Store){
		"cut":    func(l *chaos.Store) { l.Cut(chaos.All) },
		"frozen": func(l *chaos.Store) { l.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, options{nodes: 5}, func(t *testing.T, c *cluster) {
				trouble(c.links[0])
				other := exclusive("key", ttl)
				for _, n := range c.nodes[1:3] {
					if res, err := n.Acquire(t.Context(), other); err != nil || !res.Granted {
						t.Fatal(res, err)
					}
				}
				c.refuses(t, exclusive("key", ttl))
				r := exclusive("key", ttl)
				driver.Watch(t.Context(), c.store, r.ID) // as waiters do
				if err := c.store.Release(t.Context(), exclusive("key", ttl).ID); !errors.Is(err, driver.ErrNotHeld) {
					t.Error(err)
				}
				began := time.Now()
				c.refuses(t, r)
				if took := time.Since(began); took > 20*near {
					t.Errorf("an attempt with split votes took %v, want a few round trips", took)
				}
				settle()
				if n := c.holds(r.ID); n > 0 {
					t.Errorf("%d nodes still hold a part of the claim", n)
				}
			})
		})
	}
}
