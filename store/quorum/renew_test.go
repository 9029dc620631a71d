package quorum_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
)

func TestStore_Renew_tops_up(t *testing.T) {
	bubble(t, options{nodes: 3, trouble: func(c *cluster) { c.links[2].Cut(chaos.All) }}, func(t *testing.T, c *cluster) {
		a := exclusive("key", ttl)
		a.Value, a.Holder = []byte("one"), "me"
		fence := c.grants(t, a).Fence
		renew := func(value []byte) {
			t.Helper()
			if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl, Value: value}); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		renew([]byte("two"))
		if n := c.holds(a.ID); n != 2 {
			t.Fatalf("%d nodes hold it, want 2", n)
		}
		c.links[2].Heal()
		renew(nil)
		got := c.nodes[2].claim(a.ID)
		if got == nil {
			t.Fatal("the node that came back was not topped up")
		}
		if string(got.Value) != "two" || got.Holder != "me" || got.Fence < fence {
			t.Errorf("topped up with value %q, holder %q, fence %d; want two, me, at least %d", got.Value,
				got.Holder, got.Fence, fence)
		}
		c.nodes[0].restart() // the node that was topped up counts now
		renew(nil)
		if res := c.grants(t, a); res.Fence != fence {
			t.Errorf("acquired again, the fence %d became %d", fence, res.Fence)
		}
		if err := c.store.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := c.holds(a.ID); n != 0 {
			t.Errorf("%d nodes hold it after the release", n)
		}
	})
}

func TestStore_Renew_counts_no_node_that_lost_it(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a := exclusive("key", ttl)
		c.grants(t, a)
		settle()
		c.nodes[0].restart()
		c.nodes[1].restart()
		_, err := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl})
		if !errors.Is(err, driver.ErrNotHeld) {
			t.Fatalf("error %v, want not held: one node of three has it", err)
		}
		settle()
		if n := c.holds(a.ID); n != 0 {
			t.Errorf("%d nodes hold it, want the rest of it released, and nothing brought back", n)
		}
	})
}

func TestStore_Renew_tops_up_nothing_that_was_released(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		for range 50 {
			a := exclusive("key", ttl)
			c.grants(t, a)
			settle()
			c.nodes[2].restart()
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}) })
			time.Sleep(near)
			if err := c.store.Release(t.Context(), a.ID); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			settle()
			if n := c.holds(a.ID); n != 0 {
				t.Fatalf("%d nodes hold it after the release", n)
			}
		}
	})
}

func TestStore_Renew_tops_up_nothing_that_was_broken(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		for range 50 {
			a := exclusive("key", ttl)
			c.grants(t, a)
			settle()
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}) })
			time.Sleep(near / 2) // a part of the renewals arrive after the Break
			if _, err := c.store.Break(t.Context(), a.Key, 0, "test"); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			settle()
			if n := c.holds(a.ID); n != 0 {
				t.Fatalf("%d nodes hold it after the Break", n)
			}
		}
	})
}
