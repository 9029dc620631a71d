package quorum_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/quorum"
)

func TestStore_idle_goroutines_end(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		pairs := func(n int) {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					a := exclusive(fmt.Sprint("key", i), ttl)
					res, err := c.store.Acquire(t.Context(), a)
					if err == nil && res.Granted {
						err = c.store.Release(t.Context(), a.ID)
					}
					if err != nil || !res.Granted {
						t.Errorf("granted %v, error %v; want granted, and released", res.Granted, err)
					}
				})
			}
			wg.Wait()
		}
		pairs(100)
		time.Sleep(10 * near)
		synctest.Wait()
		if n := quorum.Idle(c.store); n < 300 {
			t.Errorf("%d goroutines wait for the next call, want the 300 that were needed", n)
		}
		for range 30 { // one at a time, for three seconds
			pairs(1)
			time.Sleep(100 * time.Millisecond)
		}
		if n := quorum.Idle(c.store); n < 3 || n > 10 {
			t.Errorf("%d goroutines wait, want a few: a call needs three", n)
		}
		time.Sleep(3 * time.Second)
		if n := quorum.Idle(c.store); n != 0 {
			t.Errorf("%d goroutines wait after three seconds without a call", n)
		}
		pairs(1) // new workers start
	})
}

// A call that waits until the node has answered an earlier one takes no goroutine.
func TestStore_waiting_calls_take_no_goroutine(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.links[2].Next(chaos.Acquire, chaos.Action{Kind: chaos.RequestLate, For: 50 * time.Millisecond})
		a := exclusive("key", ttl)
		c.grants(t, a)
		if err := c.store.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		if n := quorum.Idle(c.store); n != 3 {
			t.Errorf("%d goroutines made the calls, want one for each node", n)
		}
		if n := c.holds(a.ID); n != 0 {
			t.Errorf("%d nodes hold it after the release", n)
		}
	})
}
