package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/quorum"
)

func TestStore_node_that_forgot(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		bubble(t, options{nodes: nodes}, func(t *testing.T, c *cluster) {
			for _, l := range c.links[nodes/2+1:] {
				l.Freeze()
			}
			a := exclusive("key", ttl)
			c.grants(t, a) // a bare majority
			settle()
			for _, l := range c.links[nodes/2+1:] {
				l.Thaw()
			}
			c.nodes[0].restart()
			born := time.Now()
			b := exclusive("key", ttl)
			if res, err := c.store.Acquire(t.Context(), b); err == nil && res.Granted {
				t.Fatal("granted by a majority with a node that forgot the holder")
			}
			settle()
			time.Sleep(ttl)
			c.grants(t, b) // the other nodes are a majority
			if err := c.store.Release(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
			for _, l := range c.links[1 : nodes/2+1] {
				l.Freeze()
			}
			left := time.Minute - time.Since(born)
			res, err := c.store.Acquire(t.Context(), exclusive("key", ttl))
			if err == nil {
				t.Fatalf("granted %v: a majority only with a new node", res.Granted)
			}
			var v *quorum.VoteError
			if !errors.As(err, &v) || (v.Votes[0].Counted-left).Abs() > 10*near ||
				!strings.Contains(err.Error(), "1 (mem): yes, but it may have forgotten claims: counted in ") {
				t.Errorf("want a vote that is counted in %v: %v", left, err)
			}
			time.Sleep(time.Minute)
			c.grants(t, exclusive("key", ttl)) // every claim that it forgot has ended
		})
	}
}

// TestStore_node_whose_clock_jumps shows a limit: one node that ends a claim early leads to a
// second holder if the claim depends on a bare majority. The fences of the two holders still differ
// and rise.
func TestStore_node_whose_clock_jumps(t *testing.T) {
	for _, bare := range []bool{false, true} {
		bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
			if bare {
				c.links[2].Freeze()
			}
			a, b := exclusive("key", ttl), exclusive("key", ttl)
			fence := c.grants(t, a).Fence
			settle()
			c.links[2].Thaw()
			if err := c.nodes[1].Release(t.Context(), a.ID); err != nil { // for this node, the TTL has ended
				t.Fatal(err)
			}
			res, err := c.store.Acquire(t.Context(), b)
			if err != nil || res.Granted != bare {
				t.Errorf("bare majority %v: granted %v, error %v", bare, res.Granted, err)
			}
			if bare && res.Fence < fence+driver.Span {
				t.Errorf("fence %d after %d", res.Fence, fence)
			}
		})
	}
}

func TestStore_new_deployment(t *testing.T) {
	bubble(t, options{nodes: 3, fresh: true}, func(t *testing.T, c *cluster) {
		c.links[2].Freeze()
		a := exclusive("key", ttl)
		if res, err := c.store.Acquire(t.Context(), a); err == nil {
			t.Fatalf("granted %v by two of three new nodes: if one forgets it, another two will grant it again", res.Granted)
		}
		settle()
		c.links[2].Thaw()
		a = exclusive("key", ttl)
		c.grants(t, a)
		c.nodes[0].restart()
		c.refuses(t, exclusive("key", ttl))
		if err := c.store.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		for range 180 { // also while only some nodes count
			time.Sleep(time.Second)
			b := exclusive("key", ttl)
			c.grants(t, b)
			if err := c.store.Release(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestStore_client_with_a_mad_clock(t *testing.T) {
	for _, ahead := range []time.Duration{week, -week, 50 * time.Minute} {
		bubble(t, options{nodes: 3, clocks: []time.Duration{0, 2 * time.Millisecond, -time.Millisecond}}, func(t *testing.T, c *cluster) {
			var off []driver.Store
			for _, l := range c.links {
				off = append(off, shifted{l, -ahead})
			}
			mad, err := quorum.New(t.Context(), off, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer mad.Close()
			var last uint64
			for i := range 20 {
				r := exclusive("key", ttl)
				var fence uint64
				store := c.store
				began := time.Now()
				if i%2 == 0 {
					store = mad
				}
				res, err := store.Acquire(t.Context(), r)
				if err != nil || !res.Granted {
					t.Fatalf("ahead by %v: granted %v, error %v", ahead, res.Granted, err)
				}
				if took := time.Since(began); took > 6*near {
					t.Errorf("ahead by %v: it took %v, want at most three round trips", ahead, took)
				}
				if fence = res.Fence; i%2 == 0 {
					fence = shift(fence, ahead)
				}
				if fence < last+driver.Span || last > 0 && fence > last+uint64(time.Hour.Microseconds()) {
					t.Errorf("ahead by %v: fence %d after %d", ahead, fence, last)
				}
				last = fence
				if err := store.Release(t.Context(), r.ID); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestStore_majority_that_forgot shows a limit: when all nodes have forgotten a claim, the key is
// granted again, and only the clocks keep the fences in order. A first holder whose clock was ahead
// has the higher fence.
func TestStore_majority_that_forgot(t *testing.T) {
	const ahead = 50 * time.Minute
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		var off []driver.Store
		for _, l := range c.links {
			off = append(off, shifted{l, -ahead})
		}
		early, err := quorum.New(t.Context(), off, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer early.Close()
		first, err := early.Acquire(t.Context(), exclusive("key", ttl))
		if err != nil || !first.Granted {
			t.Fatalf("%+v, %v", first, err)
		}
		settle()
		for _, n := range c.nodes {
			n.restart()
		}
		second := c.grants(t, exclusive("key", ttl)) // now there are two holders
		if was := shift(first.Fence, ahead); second.Fence > was {
			t.Errorf("fence %d after %d: this does not show the limit", second.Fence, was)
		}
	})
}
