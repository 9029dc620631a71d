package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/quorum"
)

func TestStore_Release_waits_for_its_acquire(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.links[0].Next(chaos.Acquire, chaos.Action{Kind: chaos.RequestLate, For: 50 * time.Millisecond})
		a := exclusive("key", ttl)
		c.grants(t, a)
		if err := c.store.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := c.holds(a.ID); n != 0 {
			t.Errorf("%d nodes hold it: the release overtook its acquire", n)
		}
	})
}

// owesRelease returns a request that was refused because another one holds two of three nodes. The
// first node has granted it, and gets its release late.
func (c *cluster) owesRelease(t *testing.T, late time.Duration) (refused, other driver.Request) {
	t.Helper()
	other = exclusive("key", ttl)
	for _, n := range c.nodes[1:] {
		if _, err := n.Acquire(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	refused = exclusive("key", ttl)
	c.links[0].Next(chaos.Release, chaos.Action{Kind: chaos.RequestLate, For: late})
	c.refuses(t, refused)
	return refused, other
}

func TestStore_Acquire_waits_for_the_release_of_an_earlier_try(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a, other := c.owesRelease(t, 30*time.Millisecond)
		if err := c.nodes[1].Release(t.Context(), other.ID); err != nil {
			t.Fatal(err)
		}
		c.grants(t, a)
		settle()
		if n := c.holds(a.ID); n != 2 {
			t.Errorf("%d nodes hold what was granted, want 2: a release of an earlier try took it back", n)
		}
	})
}

func TestStore_calls_no_node_that_owes_a_release(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a, other := c.owesRelease(t, 5*time.Second)
		settle() // no call waits for the release any more, but it is on its way
		if err := c.nodes[1].Release(t.Context(), other.ID); err != nil {
			t.Fatal(err)
		}
		res, err := c.store.Acquire(t.Context(), a)
		time.Sleep(6 * time.Second)
		if n := c.holds(a.ID); err == nil && res.Granted && n < 2 {
			t.Fatalf("%d nodes hold what was granted: a release of an earlier try took it back", n)
		}
		if err := c.nodes[2].Release(t.Context(), other.ID); err != nil {
			t.Fatal(err)
		}
		c.grants(t, a) // the other nodes are enough
		if n := quorum.Doubts(c.store); n != 1 {
			t.Errorf("%d doubts, want 1", n)
		}
		if err := c.store.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		c.grants(t, a)
		settle()
		if n := c.holds(a.ID); n != 3 {
			t.Errorf("%d nodes hold it, want 3: a release without an answer does not count after a minute", n)
		}
	})
}

func TestStore_calls_no_node_that_comes_to_owe_a_release(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a, other := c.owesRelease(t, 5*time.Second)
		if err := c.nodes[1].Release(t.Context(), other.ID); err != nil {
			t.Fatal(err)
		}
		// the release has no answer yet, and gets none while the next Acquire waits for it
		time.Sleep(150 * time.Millisecond)
		res, err := c.store.Acquire(t.Context(), a)
		time.Sleep(6 * time.Second)
		if n := c.holds(a.ID); err == nil && res.Granted && n < 2 {
			t.Fatalf("%d nodes hold what was granted: a release of an earlier try took it back", n)
		}
	})
}

func TestStore_hanging_node_gathers_no_calls(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		other := exclusive("key", time.Minute)
		for _, n := range c.nodes[1:] {
			if _, err := n.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		c.links[0].Freeze()
		a := exclusive("key", ttl)
		for range 1000 { // a waiter that is woken all the time
			c.refuses(t, a)
		}
		if n := quorum.Leftovers(c.store); n > 10 {
			t.Errorf("the store remembers %d claims and calls for one claim", n)
		}
	})
}

func TestStore_failed_repetition_keeps_what_is_held(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a := exclusive("key", ttl)
		fence := c.grants(t, a).Fence
		settle()
		for name, err := range map[string]error{"silent": nil, "unavailable": driver.ErrUnavailable} {
			for _, l := range c.links[:2] {
				if err == nil {
					l.Next(chaos.Acquire, chaos.Action{Kind: chaos.ReplyLost})
				} else {
					l.Next(chaos.Acquire, chaos.Action{Kind: chaos.Unavailable})
				}
			}
			if res, err := c.store.Acquire(t.Context(), a); err == nil {
				t.Errorf("%s: granted %v, want an error", name, res.Granted)
			}
			settle()
			if n := c.holds(a.ID); n != 3 {
				t.Fatalf("%s: %d nodes hold it, want 3: its holder trusts in it", name, n)
			}
		}
		for _, l := range c.links {
			l.Next(chaos.Acquire, chaos.Action{Kind: chaos.Unavailable})
		}
		if _, err := c.store.Acquire(t.Context(), a); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("error %v, want unavailable", err)
		}
		if got := c.grants(t, a).Fence; got != fence {
			t.Errorf("the fence %d became %d", fence, got)
		}
	})
}

func TestStore_another_Acquire_is_one_round_trip(t *testing.T) {
	for _, trouble := range []func(*cluster){nil, func(c *cluster) { c.links[1].Freeze() }} {
		bubble(t, options{nodes: 3, trouble: trouble}, func(t *testing.T, c *cluster) {
			a := exclusive("key", ttl)
			a.Floor = c.grants(t, a).Fence
			settle()
			for range 100 {
				before := c.nodes[0].acquired()
				a.Floor += driver.Span
				began := time.Now()
				if got := c.grants(t, a).Fence; got != a.Floor {
					t.Fatalf("fence %d, want the Floor %d", got, a.Floor)
				}
				if took := time.Since(began); took > 2*near {
					t.Errorf("it took %v, want one round trip of at most %v", took, 2*near)
				}
				settle()
				if n := c.nodes[0].acquired() - before; n != 1 {
					t.Errorf("a node got %d Acquire calls, want 1", n)
				}
				stored := 0
				for _, n := range c.nodes {
					if k := n.claim(a.ID); k != nil && k.Fence >= a.Floor {
						stored++
					}
				}
				if stored < 2 {
					t.Fatalf("%d nodes have stored the fence", stored)
				}
			}
		})
	}
}

func TestStore_late_grant_to_an_owner_that_tries_again(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		// An owner whose clock is ahead held the key on nodes 1 and 3. Another holds it on nodes 2
		// and 3.
		ahead := exclusive("key", ttl)
		ahead.Floor = uint64(time.Now().Add(time.Minute).UnixMicro())
		for _, n := range []*node{c.nodes[0], c.nodes[2]} {
			if _, err := n.Acquire(t.Context(), ahead); err != nil {
				t.Fatal(err)
			}
			if err := n.Release(t.Context(), ahead.ID); err != nil {
				t.Fatal(err)
			}
		}
		other := exclusive("key", ttl)
		for _, n := range c.nodes[1:] {
			if _, err := n.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		// Node 1 grants the first attempt after it was refused, and the release fails. Node 1 still
		// has the claim at the next attempt, with a fence above the proposal.
		c.links[0].Next(chaos.Acquire, chaos.Action{Kind: chaos.ReplyLate, For: 50 * time.Millisecond})
		c.links[0].Next(chaos.Release, chaos.Action{Kind: chaos.Unavailable})
		a := exclusive("key", ttl)
		c.refuses(t, a)
		if err := c.nodes[1].Release(t.Context(), other.ID); err != nil {
			t.Fatal(err)
		}
		if got := c.grants(t, a).Fence; got < ahead.Floor+driver.Span {
			t.Errorf("fence %d, want at least %d: the fence of an earlier holder plus %d",
				got, ahead.Floor+driver.Span, driver.Span)
		}
		settle()
		if n := c.holds(a.ID); n != 2 {
			t.Errorf("%d nodes hold it, want 2", n)
		}
		if err := c.store.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := c.holds(a.ID); n != 0 {
			t.Errorf("%d nodes hold it after its release", n)
		}
	})
}

// One owner that acquires through two stores at the same time, as through two servers, may lose its
// claim to the late undo of one of them: a store orders only its own calls. So the store does not
// declare AnyServer. The first store gives up on late replies, and its releases are late too. The
// second store is granted the claim in between, and the releases end it.
func TestStore_one_owner_through_two_stores(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		if c.store.Features().AnyServer {
			t.Error("AnyServer is declared, and this test shows why it must not be")
		}
		second := c.peer(t, "second", options{latency: near})
		a := exclusive("key", ttl)
		for _, link := range c.links {
			link.Next(chaos.Acquire, chaos.Action{Kind: chaos.ReplyLate, For: 300 * time.Millisecond})
			link.Next(chaos.Release, chaos.Action{Kind: chaos.RequestLate, For: 300 * time.Millisecond})
		}
		if res, err := c.store.Acquire(t.Context(), a); err == nil {
			t.Fatalf("granted %v, want an unknown outcome", res.Granted)
		}
		began := time.Now()
		granted := second.grants(t, a)
		time.Sleep(time.Second)
		rival := second.grants(t, exclusive("key", ttl))
		if trusted := ttl - time.Since(began); trusted <= 0 {
			t.Fatalf("the claim ended %v ago, which proves nothing", -trusted)
		}
		if rival.Fence < granted.Fence+driver.Span {
			t.Errorf("the rival has the fence %d, want at least a Span above %d", rival.Fence, granted.Fence)
		}
	})
}

// A node that granted an earlier attempt and got the release of that attempt late still has the
// claim when the next attempt is granted by the other nodes. Its renewal does not count: the
// release ends its part of the claim while the holder trusts the claim.
func TestStore_Renew_counts_no_node_that_owes_a_release(t *testing.T) {
	for name, wait := range map[string]time.Duration{
		"the release has no answer yet":    0,
		"the release got no answer at all": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
				a := c.owes(t, 8*time.Second)
				time.Sleep(wait)
				c.grants(t, a)
				c.links[2].Freeze()
				_, err := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: 2 * ttl})
				if errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Renew: %v, want an unknown outcome", err)
				}
				settle()
				c.links[2].Thaw()
				time.Sleep(ttl) // the release has arrived, and the grant of node 3 has expired
				p := c.peer(t, "peer", options{nodes: 3, latency: near})
				res, peerErr := p.store.Acquire(t.Context(), exclusive("key", ttl))
				if peerErr != nil {
					t.Fatal(peerErr)
				}
				if err == nil && res.Granted {
					t.Error("two owners hold the key: a node released what it had renewed")
				}
			})
		})
	}
}

// The release of an earlier attempt may be under way on a slow node when the claim is granted. The
// claim is held all the same.
func TestStore_Renew_while_an_earlier_try_is_released(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a := c.owes(t, 150*time.Millisecond)
		c.grants(t, a)
		if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}); err != nil {
			t.Errorf("Renew: %v, want success: two nodes hold the claim", err)
		}
		settle()
		if n := c.holds(a.ID); n < 2 {
			t.Errorf("%d nodes hold what was renewed", n)
		}
		release := make(chan error, 1)
		c.links[0].Freeze()
		c.links[1].Freeze()
		go func() { release <- c.store.Release(t.Context(), a.ID) }()
		time.Sleep(10 * near)
		if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Renew: %v, want not held: the owner is releasing it", err)
		}
		<-release
	})
}

// owes returns a request that the first node granted, although the attempt was refused. The release
// of that attempt arrives late. The key is free on the other nodes.
func (c *cluster) owes(t *testing.T, late time.Duration) driver.Request {
	t.Helper()
	other := exclusive("key", ttl)
	for _, n := range c.nodes[1:] {
		if _, err := n.Acquire(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	a := exclusive("key", ttl)
	c.links[0].Next(chaos.Release, chaos.Action{Kind: chaos.RequestLate, For: late})
	c.refuses(t, a)
	for _, n := range c.nodes[1:] {
		if err := n.Release(t.Context(), other.ID); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// The vote of a node that was not called says so.
func TestStore_vote_of_a_call_that_waited(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.links[0].Freeze()
		a := exclusive("key", ttl)
		c.grants(t, a)
		c.links[1].Cut(chaos.All)
		a.TTL = 200 * time.Millisecond // the limit is 20 ms: the call before it has 100 ms
		_, err := c.store.Acquire(t.Context(), a)
		var v *quorum.VoteError
		if !errors.As(err, &v) {
			t.Fatalf("error %v, want the votes", err)
		}
		if got := v.Votes[0].String(); !strings.Contains(got, "not called") {
			t.Errorf("vote %q, want that the node was not called", got)
		}
	})
}

// If ctx ends before any node has answered, the outcome is unknown.
func TestStore_Acquire_ends_before_any_answer(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		for _, l := range c.links {
			l.Next(chaos.Acquire, chaos.Action{Kind: chaos.ReplyLate, For: 50 * time.Millisecond})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		a := exclusive("key", ttl)
		res, err := c.store.Acquire(ctx, a)
		if err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("granted %v, error %v; want an unknown outcome: all nodes have granted it", res.Granted, err)
		}
		settle()
		if n := c.holds(a.ID); n != 0 {
			t.Errorf("%d nodes hold it, want it released", n)
		}
	})
}
