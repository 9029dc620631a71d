package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/chaos"
	"github.com/distlock/distlock/store/quorum"
)

const (
	ttl  = 10 * time.Second
	near = time.Millisecond // the longest latency, one way
)

// bubble runs f in virtual time, on nodes that are old enough to count.
func bubble(t *testing.T, o options, f func(t *testing.T, c *cluster)) {
	t.Helper()
	if o.latency == 0 {
		o.latency = near
	}
	synctest.Test(t, func(t *testing.T) { f(t, open(t, o)) })
}

// grants asks for r, which must be granted.
func (c *cluster) grants(t *testing.T, r driver.Request) driver.Result {
	t.Helper()
	res, err := c.store.Acquire(t.Context(), r)
	if err != nil || !res.Granted {
		t.Fatalf("granted %v, error %v; want granted", res.Granted, err)
	}
	return res
}

// refuses asks for r, which must be refused.
func (c *cluster) refuses(t *testing.T, r driver.Request) driver.Result {
	t.Helper()
	res, err := c.store.Acquire(t.Context(), r)
	if err != nil || res.Granted {
		t.Fatalf("granted %v, error %v; want refused", res.Granted, err)
	}
	return res
}

// settle waits until nothing is under way.
func settle() { time.Sleep(time.Second) }

func TestStore_minority_in_trouble(t *testing.T) {
	slowest := func(t *testing.T, c *cluster) (most time.Duration) {
		for range 100 {
			r := exclusive("key", ttl)
			began := time.Now()
			c.grants(t, r)
			if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: ttl}); err != nil {
				t.Fatal(err)
			}
			if err := c.store.Release(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
			most = max(most, time.Since(began))
		}
		return most
	}
	for _, nodes := range []int{3, 5} {
		var healthy time.Duration
		bubble(t, options{nodes: nodes}, func(t *testing.T, c *cluster) { healthy = slowest(t, c) })
		for name, trouble := range map[string]func(l *chaos.Store){
			"cut":         func(l *chaos.Store) { l.Cut(chaos.All) },
			"frozen":      func(l *chaos.Store) { l.Freeze() },
			"deaf":        func(l *chaos.Store) { l.Cut(chaos.Replies) },
			"unavailable": func(l *chaos.Store) { unavailable(l, 1000) },
		} {
			t.Run(fmt.Sprint(nodes, " nodes, minority ", name), func(t *testing.T) {
				bubble(t, options{nodes: nodes}, func(t *testing.T, c *cluster) {
					for _, l := range c.links[:nodes/2] {
						trouble(l)
					}
					if most := slowest(t, c); most > 2*healthy {
						t.Errorf("acquire, renew and release took up to %v, and %v when all is well", most, healthy)
					}
				})
			})
		}
		t.Logf("%d nodes: acquire, renew and release took at most %v, with a latency of up to %v each way", nodes, healthy, near)
	}
}

// unavailable makes the next calls of a link unavailable.
func unavailable(l *chaos.Store, n int) {
	for range n {
		for _, v := range []chaos.Verb{chaos.Acquire, chaos.Renew, chaos.Release} {
			l.Next(v, chaos.Action{Kind: chaos.Unavailable})
		}
	}
}

func TestStore_majority_unavailable(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		unavailable(c.links[0], 10)
		unavailable(c.links[2], 10)
		r := exclusive("key", ttl)
		began := time.Now()
		_, err := c.store.Acquire(t.Context(), r)
		if took := time.Since(began); took > 3*near {
			t.Errorf("it took %v, want a round trip", took)
		}
		var v *quorum.VoteError
		if !errors.Is(err, driver.ErrUnavailable) || !errors.As(err, &v) || len(v.Votes) != 3 {
			t.Fatalf("error %v, want unavailable with the votes of 3 nodes", err)
		}
		if !errors.Is(v.Votes[0].Err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "acquire: 1 (mem): ") || !strings.Contains(err.Error(), "3 (mem): ") {
			t.Errorf("the votes cannot be read: %v", err)
		}
		settle()
		if n := c.holds(r.ID); n != 0 {
			t.Errorf("%d nodes hold it, want it released", n)
		}
		if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: ttl}); errors.Is(err, driver.ErrNotHeld) || err == nil {
			t.Errorf("Renew: %v, want neither done nor not held", err)
		}
		if err := c.store.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Release: %v, want unavailable", err)
		}
	})
}

func TestStore_majority_silent(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.links[0].Cut(chaos.Replies) // what is asked of it takes effect
		c.links[2].Freeze()
		r := exclusive("key", ttl)
		began := time.Now()
		res, err := c.store.Acquire(t.Context(), r)
		if took := time.Since(began); err == nil || res.Granted || took > 110*time.Millisecond {
			t.Fatalf("granted %v, error %v after %v; want an error after 100 ms", res.Granted, err, took)
		}
		if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrInvalid) {
			t.Errorf("error %v, want unknown: a majority may hold it", err)
		}
		settle()
		if n := c.holds(r.ID); n != 0 {
			t.Errorf("%d nodes hold it, want it released also where no answer came", n)
		}
		c.links[0].Heal()
		c.links[2].Thaw()
		c.grants(t, exclusive("key", ttl))
	})
}

func TestStore_refusal_beside_a_dead_node(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		// Another holds a part: node 2 refuses, node 1 grants, node 3 says nothing.
		other := exclusive("key", ttl)
		if _, err := c.nodes[1].Acquire(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		c.links[2].Freeze()
		r := exclusive("key", ttl)
		if got := c.refuses(t, r).Blocker.Owner; got != driver.Tag(other.Owner) {
			t.Errorf("the blocker is %s", got)
		}
		settle()
		if n := c.holds(r.ID); n != 0 {
			t.Errorf("%d nodes hold it, want the losers released", n)
		}
	})
}

func TestStore_losers_are_released(t *testing.T) {
	bubble(t, options{nodes: 5}, func(t *testing.T, c *cluster) {
		other := exclusive("key", ttl)
		for _, n := range c.nodes[:3] {
			if _, err := n.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		r := exclusive("key", ttl)
		c.refuses(t, r)
		settle()
		if n := c.holds(r.ID); n != 0 {
			t.Errorf("%d nodes hold what was refused", n)
		}
	})
}

func TestStore_late_grants_do_not_count(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		slow := []driver.Store{late{c.nodes[0]}, late{c.nodes[1]}, c.nodes[2]}
		s, err := quorum.New(t.Context(), slow, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := exclusive("key", ttl)
		if res, err := s.Acquire(t.Context(), r); err == nil || res.Granted {
			t.Errorf("granted %v, error %v; want an error: a majority answered too late", res.Granted, err)
		}
		settle()
		if n := c.holds(r.ID); n != 0 {
			t.Errorf("%d nodes hold it", n)
		}
	})
}

// late is a store that answers after a while, whatever its ctx says.
type late struct{ driver.Store }

func (l late) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	time.Sleep(110 * time.Millisecond)
	return l.Store.Acquire(context.WithoutCancel(ctx), r)
}

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
			b := exclusive("key", ttl)
			if res, err := c.store.Acquire(t.Context(), b); err == nil && res.Granted {
				t.Fatal("granted by a majority with a node that forgot the holder")
			}
			settle()
			time.Sleep(ttl)
			c.grants(t, b) // the others are a majority
			if err := c.store.Release(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
			for _, l := range c.links[1 : nodes/2+1] {
				l.Freeze()
			}
			if res, err := c.store.Acquire(t.Context(), exclusive("key", ttl)); err == nil {
				t.Fatalf("granted %v: a majority only with a young node", res.Granted)
			} else if !strings.Contains(err.Error(), "1 (mem): yes, but not counted") {
				t.Errorf("the young vote is not told: %v", err)
			}
			time.Sleep(time.Minute)
			c.grants(t, exclusive("key", ttl)) // it has nothing to remember that it forgot
		})
	}
}

// TestStore_node_whose_clock_jumps shows what is not promised: one node that ends a claim early gives the key away if the
// claim hangs on a bare majority. The fence still tells the two holders apart.
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
			if err := c.nodes[1].Release(t.Context(), a.ID); err != nil { // as far as it can tell, the TTL is over
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
	bubble(t, options{nodes: 3, young: true}, func(t *testing.T, c *cluster) {
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
		for range 180 { // there is no second in which some have come of age and some have not
			time.Sleep(time.Second)
			b := exclusive("key", ttl)
			c.grants(t, b)
			if err := c.store.Release(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
		}
	})
}

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
			t.Errorf("topped up with value %q, holder %q, fence %d; want two, me, at least %d", got.Value, got.Holder, got.Fence, fence)
		}
		c.nodes[0].restart() // the node that was topped up counts by now
		renew(nil)
		if res := c.grants(t, a); res.Fence != fence {
			t.Errorf("asked again, the fence %d became %d", fence, res.Fence)
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

func TestStore_Acquire_waits_for_the_release_of_an_earlier_try(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		other := exclusive("key", ttl)
		for _, n := range c.nodes[1:] {
			if _, err := n.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		a := exclusive("key", ttl)
		c.links[0].Next(chaos.Release, chaos.Action{Kind: chaos.RequestLate, For: 30 * time.Millisecond})
		c.refuses(t, a) // node 1 granted it, and is told so late that it is refused
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

func TestStore_asks_no_node_that_owes_a_release(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		other := exclusive("key", ttl)
		for _, n := range c.nodes[1:] {
			if _, err := n.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		a := exclusive("key", ttl)
		c.links[0].Next(chaos.Release, chaos.Action{Kind: chaos.RequestLate, For: 5 * time.Second})
		c.refuses(t, a)
		settle() // nobody waits for the release any more, but it is on its way
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
		c.grants(t, a) // the others are enough
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
			t.Errorf("%d nodes hold it, want 3: what is not answered in a minute does not come", n)
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
			t.Errorf("%d things are remembered for one claim", n)
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

func TestStore_asking_again_is_one_round_trip(t *testing.T) {
	for _, trouble := range []func(*cluster){nil, func(c *cluster) { c.links[1].Freeze() }} {
		bubble(t, options{nodes: 3, trouble: trouble}, func(t *testing.T, c *cluster) {
			a := exclusive("key", ttl)
			a.Floor = c.grants(t, a).Fence
			settle()
			for range 100 {
				asks := c.nodes[0].asked()
				a.Floor += driver.Span
				began := time.Now()
				if got := c.grants(t, a).Fence; got != a.Floor {
					t.Fatalf("fence %d, want the Floor %d", got, a.Floor)
				}
				if took := time.Since(began); took > 2*near {
					t.Errorf("it took %v, want one round trip of at most %v", took, 2*near)
				}
				settle()
				if n := c.nodes[0].asked() - asks; n != 1 {
					t.Errorf("a node was asked %d times, want once", n)
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

// TestStore_split_votes lets clients contend for one key, and counts how many asks a grant costs.
func TestStore_split_votes(t *testing.T) {
	for _, clients := range []int{2, 3, 5, 10} {
		bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
			const each = 20
			var mu sync.Mutex
			asks, grants := 0, 0
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
							asks++
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
			t.Logf("%2d clients: %d grants in %v (%v each), %.1f asks a grant, longest wait %v",
				clients, grants, took, took/time.Duration(grants), float64(asks)/float64(grants), longest)
			if per := took / time.Duration(grants); per > 100*near {
				t.Errorf("%d clients: a grant took %v, want far less than a poll", clients, per)
			}
		})
	}
}
