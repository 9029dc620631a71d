package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
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

// grants acquires r, which must be granted.
func (c *cluster) grants(t *testing.T, r driver.Request) driver.Result {
	t.Helper()
	res, err := c.store.Acquire(t.Context(), r)
	if err != nil || !res.Granted {
		t.Fatalf("granted %v, error %v; want granted", res.Granted, err)
	}
	return res
}

// refuses acquires r, which must be refused.
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
			"no replies":  func(l *chaos.Store) { l.Cut(chaos.Replies) },
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
		if !errors.Is(v.Votes[0].Err, driver.ErrUnavailable) ||
			!strings.Contains(err.Error(), "acquire: 1 (mem): ") ||
			!strings.Contains(err.Error(), "3 (mem): ") {
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

// A release that reaches one node ends a claim that depends on a bare majority. If its other calls
// arrive late, after the claim has expired there, a majority no longer has the claim. Whether it
// was held until the release is unknown.
func TestStore_Release_in_parts(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		r := exclusive("key", ttl)
		if res, err := c.store.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		settle()
		c.links[1].Freeze()
		c.links[2].Freeze()
		done := make(chan error, 1)
		go func() { done <- c.store.Release(t.Context(), r.ID) }()
		time.Sleep(50 * time.Millisecond) // the first node has answered
		for _, n := range c.nodes[1:] {
			if err := n.Release(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		c.links[1].Thaw()
		c.links[2].Thaw()
		if err := <-done; err == nil || errors.Is(err, driver.ErrNotHeld) ||
			errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Release: %v, want unknown", err)
		}
	})
}

// With a longer NodeLimit the store waits for nodes that are far away.
func TestStore_nodeLimit(t *testing.T) {
	for limit, want := range map[time.Duration]bool{0: false, 500 * time.Millisecond: true} {
		t.Run(limit.String(), func(t *testing.T) {
			bubble(t, options{nodes: 3, store: &quorum.Options{NodeLimit: limit}}, func(t *testing.T, c *cluster) {
				for _, l := range c.links {
					for _, v := range []chaos.Verb{chaos.Acquire, chaos.Renew, chaos.Release} {
						l.Next(v, chaos.Action{Kind: chaos.ReplyLate, For: 300 * time.Millisecond})
					}
				}
				r := exclusive("key", ttl)
				if res, err := c.store.Acquire(t.Context(), r); res.Granted != want {
					t.Fatalf("granted %v, %v", res.Granted, err)
				}
				if !want {
					return
				}
				if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: r.TTL}); err != nil {
					t.Error("Renew:", err)
				}
				if err := c.store.Release(t.Context(), r.ID); err != nil {
					t.Error("Release:", err)
				}
			})
		})
	}
}

func TestStore_majority_silent(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.links[0].Cut(chaos.Replies) // its requests take effect
		c.links[2].Freeze()
		r := exclusive("key", ttl)
		began := time.Now()
		res, err := c.store.Acquire(t.Context(), r)
		if took := time.Since(began); err == nil || res.Granted || took > 110*time.Millisecond {
			t.Fatalf("granted %v, error %v after %v; want an error after 100 ms", res.Granted, err, took)
		}
		if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotHeld) ||
			errors.Is(err, driver.ErrInvalid) {
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

// A waiter that could not undo an attempt, because a majority did not answer for a moment, still
// gets the key afterwards.
func TestStore_waiter_after_silence(t *testing.T) {
	for name, trouble := range map[string]func(*chaos.Store) (heal func()){
		"cut":    func(l *chaos.Store) func() { l.Cut(chaos.Requests); return l.Heal },
		"frozen": func(l *chaos.Store) func() { l.Freeze(); return l.Thaw },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
				rival, held := c.peer(t, "rival", options{latency: near}), exclusive("key", time.Minute)
				rival.grants(t, held)
				l, err := distlock.New(c.store)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close(t.Context())
				granted := make(chan time.Time, 1)
				go func() {
					lease, err := l.Lock(t.Context(), "key")
					if err != nil {
						t.Error(err)
						return
					}
					granted <- time.Now()
					if err := lease.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				settle()
				var heals []func()
				for _, link := range c.links[:2] {
					heals = append(heals, trouble(link))
				}
				time.Sleep(5 * time.Second)
				for _, heal := range heals {
					heal()
				}
				settle()
				free := time.Now()
				if err := rival.store.Release(t.Context(), held.ID); err != nil {
					t.Fatal(err)
				}
				if took := (<-granted).Sub(free); took > 5*time.Second {
					t.Errorf("granted %v after the key was free", took)
				}
			})
		})
	}
}

func TestStore_refusal_with_a_dead_node(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		// Another owner holds a part: node 2 refuses, node 1 grants, node 3 does not answer.
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

// late is a store that answers after a while, even if its ctx has ended.
type late struct{ driver.Store }

func (l late) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	time.Sleep(110 * time.Millisecond)
	return l.Store.Acquire(context.WithoutCancel(ctx), r)
}

// If all nodes are unavailable, the error shows that for every node, also for the node whose answer
// came last.
func TestStore_all_refuse(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		for _, l := range c.links {
			unavailable(l, 10)
		}
		for range 5 { // nodes differ in how soon they answer
			_, err := c.store.Acquire(t.Context(), exclusive("key", ttl))
			var v *quorum.VoteError
			if !errors.Is(err, driver.ErrUnavailable) || !errors.As(err, &v) {
				t.Fatal(err)
			}
			for _, vote := range v.Votes {
				if !errors.Is(vote.Err, driver.ErrUnavailable) {
					t.Errorf("%v: %v", vote, err)
				}
			}
			settle()
		}
	})
}
