package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/quorum"
)

// plain is a node without optional methods, and with other features.
type plain struct {
	driver.Store
	f driver.Features
}

func (p plain) Features() driver.Features { return p.f }

// hosted is a node on a server that may have other nodes.
type hosted struct {
	driver.Forward
	server string
}

func (h hosted) Inspect(ctx context.Context) (driver.Info, error) {
	info, err := h.Forward.Inspect(ctx)
	info.Server = h.server
	return info, err
}

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	m := make([]driver.Store, 6)
	for i := range m {
		m[i] = mem.New()
	}
	full := m[0].Features()
	with := func(change func(f *driver.Features)) driver.Store {
		f := full
		change(&f)
		return plain{mem.New(), f}
	}
	database := func(server string) driver.Store { return hosted{driver.Forward{Store: mem.New()}, server} }
	link := chaos.New(m[0], nil)
	defer link.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one := &plain{mem.New(), full}
	// New accepts a node that does not answer in time, and a scheduler stall may delay an answer.
	patient := &quorum.Options{NodeLimit: 2 * time.Second}
	for name, tt := range map[string]struct {
		ctx   context.Context
		nodes []driver.Store
		o     *quorum.Options
		want  error
		says  string
	}{
		"no node": {nil, nil, nil, driver.ErrInvalid, "needs three"},
		"one":     {nil, m[:1], nil, driver.ErrInvalid, "needs three"},
		"two":     {nil, m[:2], nil, driver.ErrInvalid, "needs three"},
		"four":    {nil, m[:4], nil, driver.ErrInvalid, "take 3"},
		"six":     {nil, m[:6], nil, driver.ErrInvalid, "take 5"},
		"nil": {nil, []driver.Store{m[0], nil, m[1]}, nil,
			driver.ErrInvalid, "node 2 is nil"},
		"the same": {nil, []driver.Store{m[0], m[1], m[0]}, nil, driver.ErrInvalid,
			"1 (mem) and 3 (mem) are the same store"},
		"the same by links": {nil, []driver.Store{m[0], m[1], link}, patient, driver.ErrInvalid,
			"1 (mem) and 3 (mem) are the same store"},
		"the same, unknown": {nil, []driver.Store{one, m[1], one}, nil,
			driver.ErrInvalid, "are the same store"},
		"no expiry": {nil,
			[]driver.Store{m[0], m[1], with(func(f *driver.Features) { f.Expiry = false })}, nil,
			errors.ErrUnsupported, "does not expire claims"},
		"a negative longest": {nil, m[:3], &quorum.Options{LongestTTL: -1},
			driver.ErrInvalid, "negative"},
		"two names": {nil, m[:3], &quorum.Options{Nodes: []string{"a", "b"}},
			driver.ErrInvalid, "2 names for 3 nodes"},
		"the same by name": {nil, []driver.Store{m[0], m[1], m[0]},
			&quorum.Options{Nodes: []string{"a:1", "b:2", "c:3"}}, driver.ErrInvalid,
			"nodes a:1 and c:3 are the same store"},
		"a negative limit": {nil, m[:3], &quorum.Options{NodeLimit: -1},
			driver.ErrInvalid, "NodeLimit"},
		"a limit too long": {nil, m[:3], &quorum.Options{NodeLimit: 7 * time.Second},
			driver.ErrInvalid, "a tenth of LongestTTL, 6s"},
		"no TTL fits": {nil,
			[]driver.Store{m[0], m[1], with(func(f *driver.Features) { f.MinTTL = time.Hour })}, nil,
			driver.ErrInvalid, "shortest TTL of 1h0m0s"},
		"databases of one server": {
			nil, []driver.Store{database("a"), database("b"), database("a")}, patient, driver.ErrInvalid,
			"1 (mem) and 3 (mem) are databases of the same server",
		},
		"a ctx that has ended": {ended, m[:3], nil, context.Canceled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.ctx == nil {
				tt.ctx = t.Context()
			}
			s, err := quorum.New(tt.ctx, tt.nodes, tt.o)
			if s != nil || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %v with %q", err, tt.want, tt.says)
			}
		})
	}
}

func TestStore_Features(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := mem.New().Features()
		f.Floor, f.Value, f.Detached, f.MaxTTL, f.MinTTL = false, false, false,
			30*time.Second, time.Second
		nodes := []driver.Store{mem.New(), plain{mem.New(), f}, mem.New()}
		s, err := quorum.New(t.Context(), nodes,
			&quorum.Options{Name: "three", LongestTTL: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want := driver.Features{Name: "three", Expiry: true, MinTTL: time.Second,
			MaxTTL: 30 * time.Second}
		if got := s.Features(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		r := exclusive("key", 10*time.Second)
		if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted || res.Fence != 0 {
			t.Errorf("granted %v with the fence %d, error %v; want no fence that does not rise",
				res.Granted, res.Fence, err)
		}
		counted := exclusive("slots", 10*time.Second)
		counted.Weight, counted.Limit = 1, 3
		if _, err := s.Acquire(t.Context(), counted); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a counted claim: %v, want invalid", err)
		}
		if _, err := driver.Show(t.Context(), s, "key"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Show: %v, want unsupported: a node cannot", err)
		}
		if c := driver.Watch(t.Context(), s, r.ID); c == nil {
			t.Error("Watch: nil, want a channel: a majority can")
		}
		info, err := driver.Inspect(t.Context(), s)
		if err != nil || info.Identity != "" ||
			!strings.Contains(fmt.Sprint(info.Findings), "node 2 (mem): cannot describe itself") {
			t.Errorf("Inspect: %+v, %v", info, err)
		}
	})
}

// A renewal that has succeeded may not have reached the node that answers first.
func TestStore_shows_the_renewed_value(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		for late := range c.nodes {
			a := exclusive(fmt.Sprint("key ", late), ttl)
			a.Value = []byte("old")
			c.grants(t, a)
			settle()
			for i, n := range c.nodes {
				if i == late {
					continue
				}
				if _, err := n.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl, Value: []byte("new")}); err != nil {
					t.Fatal(err)
				}
			}
			cs, err := driver.Show(t.Context(), c.store, a.Key)
			if err != nil || len(cs) != 1 || string(cs[0].Value) != "new" {
				t.Errorf("node %d is late: %v, %v", late, cs, err)
			}
		}
	})
}

func TestStore_Show_with_a_node_down(t *testing.T) {
	bubble(t, options{nodes: 3, trouble: func(c *cluster) { c.links[1].Freeze() }}, func(t *testing.T, c *cluster) {
		a := exclusive("key", ttl)
		c.grants(t, a)
		part := exclusive("part", ttl)
		if _, err := c.nodes[0].Acquire(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		settle()
		cs, err := driver.Show(t.Context(), c.store, "key")
		if err != nil || len(cs) != 1 || cs[0].Owner != driver.Tag(a.Owner) {
			t.Errorf("Show: %v, %v", cs, err)
		}
		// With the node that does not answer, a majority may hold the part.
		if cs, err = driver.Show(t.Context(), c.store, "part"); err != nil || len(cs) != 1 {
			t.Errorf("Show of a claim that a majority may hold: %v, %v", cs, err)
		}
		c.links[1].Thaw()
		if cs, err = driver.Show(t.Context(), c.store, "part"); err != nil || len(cs) != 0 {
			t.Errorf("Show of a claim that no majority holds: %v, %v", cs, err)
		}
		if cs, err = driver.Break(t.Context(), c.store, "part", 0, "test"); err != nil || len(cs) != 0 ||
			c.holds(part.ID) != 0 {
			t.Errorf("Break of a claim that no majority holds: %v, %v; %d nodes hold it",
				cs, err, c.holds(part.ID))
		}
		if cs, err = driver.Break(t.Context(), c.store, "key", 0, "test"); err != nil || len(cs) != 1 {
			t.Errorf("Break: %v, %v", cs, err)
		}
		var broken *driver.BrokenError
		if _, err := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}); !errors.As(err, &broken) || broken.Reason != "test" {
			t.Errorf("Renew: %v, want broken with the reason", err)
		}
		c.links[0].Freeze()
		c.links[2].Freeze()
		var v *quorum.VoteError
		if _, err := driver.Show(t.Context(), c.store, "key"); !errors.As(err, &v) {
			t.Errorf("Show without a majority: %v", err)
		}
		for _, err := range driver.List(t.Context(), c.store, "") {
			if !errors.As(err, &v) {
				t.Errorf("List without a majority: %v", err)
			}
		}
	})
}

func TestStore_Inspect(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.nodes[0].restart()
		time.Sleep(time.Second)
		info, err := driver.Inspect(t.Context(), c.store)
		if err != nil || info.Age < 3*time.Minute ||
			!strings.HasPrefix(info.Identity, "quorum:mem:") || info.Version != "2 of 3 nodes: mem" {
			t.Errorf("%+v, %v", info, err)
		}
		if text := fmt.Sprint(info.Findings); !strings.Contains(text, "node 1 (mem): has remembered claims only for 1s") ||
			!strings.Contains(text, "node 2 (mem): claims are kept in this process's memory") {
			t.Errorf("findings %s", text)
		}
		if text := fmt.Sprint(info.Findings); !strings.Contains(text, "ok the 3 nodes are different stores") {
			t.Errorf("findings %s", text)
		}
		c.links[2].Cut(chaos.All)
		info, err = driver.Inspect(t.Context(), c.store)
		text := fmt.Sprint(info.Findings)
		if err != nil || info.Identity != "" ||
			!strings.Contains(text, "{warning node 3 (mem): ") ||
			!strings.Contains(text, "0 more may fail") ||
			!strings.Contains(text, "{unknown the identity of 1 nodes could not be read") {
			t.Errorf("with a node down: %+v, %v", info, err)
		}
		c.links[1].Cut(chaos.All)
		info, err = driver.Inspect(t.Context(), c.store)
		if err != nil || info.Age != 0 ||
			strings.Count(fmt.Sprint(info.Findings), "too few nodes are left") != 2 {
			t.Errorf("with two nodes down: %+v, %v", info, err)
		}
		c.links[0].Cut(chaos.All)
		if info, err = driver.Inspect(t.Context(), c.store); err == nil {
			t.Errorf("with no node: %+v", info)
		}
	})
}

// A hidden node is a node that New could not inspect.
type hidden struct {
	driver.Store
	down atomic.Bool
}

func (n *hidden) Inspect(ctx context.Context) (driver.Info, error) {
	if n.down.Load() {
		return driver.Info{}, driver.ErrUnavailable
	}
	return driver.Inspect(ctx, n.Store)
}

// If New could inspect only one of two nodes that are the same store, Inspect finds them later.
func TestStore_Inspect_duplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &hidden{Store: mem.New()}
		other := &hidden{Store: one.Store}
		other.down.Store(true)
		s, err := quorum.New(t.Context(), []driver.Store{one, mem.New(), other}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		other.down.Store(false)
		info, err := s.Inspect(t.Context())
		if err != nil || len(info.Findings) == 0 || info.Findings[0].Level != driver.LevelDanger ||
			info.Findings[0].What != "nodes 1 (mem) and 3 (mem) are the same store" {
			t.Errorf("%+v, %v", info, err)
		}
		one.down.Store(true)
		other.down.Store(true)
		if info, err := s.Inspect(t.Context()); err != nil ||
			!strings.Contains(fmt.Sprint(info.Findings), "too few nodes") {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

func TestStore_Close(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		a := exclusive("key", ttl)
		c.grants(t, a)
		if driver.Watch(t.Context(), c.store, a.ID) == nil {
			t.Error("no watch")
		}
		c.store.Close()
		c.store.Close()
		_, err1 := c.store.Acquire(t.Context(), a)
		_, err2 := c.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl})
		_, err3 := driver.Show(t.Context(), c.store, "key")
		_, err4 := driver.Inspect(t.Context(), c.store)
		for _, err := range []error{err1, err2, err3, err4, c.store.Release(t.Context(), a.ID)} {
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("error %v, want unavailable", err)
			}
		}
		if driver.Watch(t.Context(), c.store, a.ID) != nil {
			t.Error("a watch on a store that is closed")
		}
		if n := c.holds(a.ID); n != 3 {
			t.Errorf("%d nodes hold the claim, want 3: closing releases nothing", n)
		}
	})
}

func TestStore_Watch_without_a_majority(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		c.links[0].Freeze()
		if driver.Watch(t.Context(), c.store, driver.ID{Key: "key"}) == nil {
			t.Error("nil with two of three nodes")
		}
		c.links[1].Freeze()
		if driver.Watch(t.Context(), c.store, driver.ID{Key: "key"}) != nil {
			t.Error("a channel with one of three nodes")
		}
	})
}

// TestLocker_hand_over measures the time from an unlock to the grant of a waiter in another store.
func TestLocker_hand_over(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		p := c.peer(t, "peer", options{nodes: 3, latency: near})
		var lockers []*distlock.Locker
		for _, s := range []*quorum.Store{c.store, p.store} {
			l, err := distlock.New(s, distlock.TTL(ttl))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close(context.Background()) }()
			lockers = append(lockers, l)
		}
		var most time.Duration
		for i := range 50 {
			lease, err := lockers[i%2].Lock(t.Context(), "key")
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan *distlock.Lease)
			go func() {
				lease, err := lockers[1-i%2].Lock(t.Context(), "key")
				if err != nil {
					t.Error(err)
				}
				got <- lease
			}()
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			next := <-got
			most = max(most, time.Since(began))
			if next.Fence() < lease.Fence()+driver.Span {
				t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
			}
			if err := next.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		t.Logf("a hand-over took at most %v, with a latency of up to %v each way", most, near)
		if most > 30*near {
			t.Errorf("it took %v, which is a poll", most)
		}
	})
}

// TestLocker_loses_its_lease_with_the_majority holds a lease over an outage of the majority.
func TestLocker_loses_its_lease_with_the_majority(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		l, err := distlock.New(c.store, distlock.TTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close(context.Background()) }()
		lease, err := l.Lock(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl)
		c.links[0].Freeze()
		time.Sleep(2 * ttl) // the loss of a minority does no harm
		if err := lease.Err(); err != nil {
			t.Fatalf("lost with a minority: %v", err)
		}
		c.links[2].Cut(chaos.All)
		until := lease.Until()
		<-lease.Done()
		if !errors.Is(lease.Err(), distlock.ErrLost) {
			t.Errorf("error %v, want lost", lease.Err())
		}
		if now := time.Now(); now.After(until) || now.Before(until.Add(-time.Microsecond)) {
			t.Errorf("lost at %v, want when trust ended, at %v", now, until)
		}
		_, err = l.TryLock(t.Context(), "key")
		if err == nil || errors.Is(err, distlock.ErrHeld) {
			t.Errorf("TryLock without a majority: %v, want neither granted nor held", err)
		}
		c.links[0].Thaw()
		c.links[2].Heal()
		time.Sleep(ttl)
		began := time.Now()
		again, err := l.Lock(t.Context(), "key")
		if err != nil {
			t.Fatalf("after the outage: %v", err)
		}
		t.Logf("granted again %v after the outage", time.Since(began))
		if err := again.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStore_attached_claim(t *testing.T) {
	bubble(t, options{nodes: 3}, func(t *testing.T, c *cluster) {
		p := c.peer(t, "peer", options{nodes: 3, latency: near})
		a := exclusive("key", ttl)
		fence := c.grants(t, a).Fence
		synctest.Wait()
		settle()
		if _, err := p.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
		if got := p.grants(t, a).Fence; got != fence {
			t.Errorf("acquired again in another store, the fence %d became %d", fence, got)
		}
		c.nodes[2].restart()
		if _, err := p.store.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := c.holds(a.ID); n != 3 {
			t.Errorf("%d nodes hold it, want 3: a store that acquired it can top it up", n)
		}
		for _, l := range p.links[:2] {
			l.Next(chaos.Acquire, chaos.Action{Kind: chaos.ReplyLost})
		}
		if _, err := p.store.Acquire(t.Context(), a); err == nil {
			t.Error("granted without a majority")
		}
		settle()
		if n := c.holds(a.ID); n != 3 {
			t.Errorf("%d nodes hold it, want 3: a store that renewed it holds it", n)
		}
	})
}
