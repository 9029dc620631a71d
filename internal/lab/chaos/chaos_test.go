package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a client a behind a link to a store, and the store itself.
type rig struct {
	*testing.T
	inner *counter
	link  *chaos.Store

	mu     sync.Mutex
	faults []chaos.Fault
}

// A counter counts the requests that arrive.
type counter struct {
	*mem.Store
	mu      sync.Mutex
	arrived []string
}

func (c *counter) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived = append(c.arrived, what)
}

func (c *counter) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	c.note("acquire " + r.Owner)
	return c.Store.Acquire(ctx, r)
}

func (c *counter) Release(ctx context.Context, id driver.ID) error {
	c.note("release " + id.Owner)
	return c.Store.Release(ctx, id)
}

// bubble runs f in virtual time.
func bubble(t *testing.T, o chaos.Options, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, inner: &counter{Store: mem.New()}}
		o.Name = "a"
		o.Observe = func(f chaos.Fault) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.faults = append(r.faults, f)
		}
		r.link = chaos.New(r.inner, &o)
		defer r.link.Close()
		f(r)
	})
}

func request(owner string) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: "k", Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: 10 * time.Second,
	}
}

// acquire makes the call over the link, with a ctx that ends after patience.
func (r *rig) acquire(owner string, patience time.Duration) (driver.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.link.Acquire(ctx, request(owner))
}

// arrived fails unless exactly these requests have reached the store.
func (r *rig) arrived(want ...string) {
	r.Helper()
	r.inner.mu.Lock()
	defer r.inner.mu.Unlock()
	if !slices.Equal(r.inner.arrived, want) {
		r.Errorf("%q arrived, want %q", r.inner.arrived, want)
	}
}

// reported fails unless exactly these faults were reported.
func (r *rig) reported(want ...string) {
	r.Helper()
	synctest.Wait() // for the goroutine that ended the fault, and reports it then
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, f := range r.faults {
		got = append(got, f.String())
	}
	if !slices.Equal(got, want) {
		r.Errorf("reported %q, want %q", got, want)
	}
}

// after fails unless exactly this much time has passed since.
func (r *rig) after(since time.Time, want time.Duration) {
	r.Helper()
	if got := time.Since(since); got != want {
		r.Errorf("it took %v, want %v", got, want)
	}
}

// unknown fails unless err leaves the outcome open.
func (r *rig) unknown(err error) {
	r.Helper()
	if !errors.Is(err, chaos.ErrNoAnswer) || errors.Is(err, driver.ErrNotHeld) ||
		errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) {
		r.Errorf("%v, want an unknown outcome", err)
	}
}

func TestNext(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name     string
		action   chaos.Action
		check    func(r *rig, res driver.Result, err error)
		takes    time.Duration // of a call with a patience of 5 s
		arrived  int           // when the call has returned
		later    int           // in the end
		reported string
	}{
		{name: "nothing", check: granted, arrived: 1, later: 1},
		{
			name: "request lost", action: chaos.Action{Kind: chaos.RequestLost, For: s},
			check: lost, takes: s, reported: `a: acquire of "k" request lost, 1s`,
		},
		{
			name: "request lost until the ctx ends", action: chaos.Action{Kind: chaos.RequestLost},
			check: timeout, takes: 5 * s, reported: `a: acquire of "k" request lost, 5s`,
		},
		{
			name: "reply lost", action: chaos.Action{Kind: chaos.ReplyLost, For: s},
			check: lost, takes: s, arrived: 1, later: 1, reported: `a: acquire of "k" reply lost, 1s`,
		},
		{
			name: "reply lost until the ctx ends", action: chaos.Action{Kind: chaos.ReplyLost},
			check: timeout, takes: 5 * s, arrived: 1, later: 1, reported: `a: acquire of "k" reply lost, 5s`,
		},
		{
			name: "request late", action: chaos.Action{Kind: chaos.RequestLate, For: s},
			check: granted, takes: s, arrived: 1, later: 1, reported: `a: acquire of "k" request late, 1s`,
		},
		{
			name: "request later than its caller", action: chaos.Action{Kind: chaos.RequestLate, For: 6 * s},
			check: timeout, takes: 5 * s, later: 1, reported: `a: acquire of "k" request late, 6s`,
		},
		{
			name: "reply late", action: chaos.Action{Kind: chaos.ReplyLate, For: s},
			check: granted, takes: s, arrived: 1, later: 1, reported: `a: acquire of "k" reply late, 1s`,
		},
		{
			name: "reply later than its caller", action: chaos.Action{Kind: chaos.ReplyLate, For: 6 * s},
			check: timeout, takes: 5 * s, arrived: 1, later: 1, reported: `a: acquire of "k" reply late, 5s`,
		},
		{
			name: "repeated", action: chaos.Action{Kind: chaos.Repeated, For: s},
			check: granted, arrived: 1, later: 2, reported: `a: acquire of "k" repeated, 1s`,
		},
		{
			name: "frozen", action: chaos.Action{Kind: chaos.Frozen, For: s},
			check: granted, takes: s, arrived: 1, later: 1, reported: `a: acquire of "k" frozen, 1s`,
		},
		{
			name: "frozen for longer than its caller", action: chaos.Action{Kind: chaos.Frozen, For: 6 * s},
			check: timeout, takes: 5 * s, reported: `a: acquire of "k" frozen, 6s`,
		},
		{
			name: "unavailable", action: chaos.Action{Kind: chaos.Unavailable},
			check: unavailable, reported: `a: acquire of "k" unavailable, 0s`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, chaos.Options{}, func(r *rig) {
				if c.action.Kind != 0 {
					r.link.Next(chaos.Acquire, c.action)
				}
				began := time.Now()
				res, err := r.acquire("a", 5*time.Second)
				c.check(r, res, err)
				r.after(began, c.takes)
				synctest.Wait()
				r.arrived(slices.Repeat([]string{"acquire a"}, c.arrived)...)
				time.Sleep(10 * time.Second)
				r.arrived(slices.Repeat([]string{"acquire a"}, c.later)...)
				if c.reported != "" {
					r.reported(c.reported)
				} else {
					r.reported()
				}
				// The command applied to one call.
				if res, err := r.acquire("b", time.Second); err != nil || !res.Granted && c.later == 0 {
					t.Errorf("the next call: %+v, %v", res, err)
				}
			})
		})
	}
}

func granted(r *rig, res driver.Result, err error) {
	r.Helper()
	if err != nil || !res.Granted {
		r.Errorf("%+v, %v, want a grant", res, err)
	}
}

func lost(r *rig, _ driver.Result, err error) {
	r.Helper()
	r.unknown(err)
	if errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("%v, and the ctx had time left", err)
	}
}

func timeout(r *rig, _ driver.Result, err error) {
	r.Helper()
	r.unknown(err)
	if !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("%v, want the error of the ctx too", err)
	}
}

func unavailable(r *rig, _ driver.Result, err error) {
	r.Helper()
	if !errors.Is(err, driver.ErrUnavailable) {
		r.Errorf("%v, want unavailable", err)
	}
}

func TestFreeze(t *testing.T) {
	bubble(t, chaos.Options{}, func(r *rig) {
		began := time.Now()
		r.link.Freeze()
		r.link.Freeze() // harmless
		if _, err := r.acquire("a", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of ctx", err)
		}
		if w := r.link.Watch(r.Context(), driver.ID{Key: "k"}); w != nil {
			t.Error("a frozen link watches")
		}
		time.AfterFunc(time.Second, r.link.Thaw)
		res, err := r.acquire("b", time.Minute)
		granted(r, res, err)
		r.after(began, 2*time.Second)
		r.arrived("acquire b")
		r.reported("a: frozen for 2s")
	})
}

func TestThaw_lets_replies_through(t *testing.T) {
	bubble(t, chaos.Options{Plan: chaos.Plan{}}, func(r *rig) {
		r.link.Next(chaos.Acquire, chaos.Action{Kind: chaos.ReplyLate, For: time.Second})
		time.AfterFunc(time.Millisecond, r.link.Freeze)
		time.AfterFunc(3*time.Second, r.link.Thaw)
		began := time.Now()
		res, err := r.acquire("a", time.Minute)
		granted(r, res, err)
		r.after(began, 3*time.Second)
	})
}

func TestCut(t *testing.T) {
	t.Run("requests", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			r.link.Cut(chaos.Requests)
			_, err := r.acquire("a", time.Second)
			r.unknown(err)
			r.arrived()
			if w := r.link.Watch(r.Context(), driver.ID{Key: "k"}); w != nil {
				t.Error("a watch was begun over a link that is cut")
			}
			r.link.Heal()
			r.reported("a: cut off for 1s")
			res, err := r.acquire("b", time.Second)
			granted(r, res, err)
		})
	})
	t.Run("replies", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			r.link.Cut(chaos.Replies)
			_, err := r.acquire("a", time.Second)
			r.unknown(err)
			r.arrived("acquire a")
			r.link.Heal()
			res, err := r.acquire("a", time.Second) // the same owner gets its claim again
			granted(r, res, err)
		})
	})
	t.Run("also a reply of unavailable", func(t *testing.T) {
		for _, d := range []chaos.Direction{chaos.Requests, chaos.Replies} {
			bubble(t, chaos.Options{}, func(r *rig) {
				r.link.Cut(d)
				r.link.Next(chaos.Acquire, chaos.Action{Kind: chaos.Unavailable})
				_, err := r.acquire("a", time.Second)
				r.unknown(err)
				r.arrived()
			})
		}
	})
	t.Run("heal ends the silence", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			r.link.Cut(chaos.All)
			time.AfterFunc(time.Second, r.link.Heal)
			began := time.Now()
			_, err := r.acquire("a", time.Minute)
			lost(r, driver.Result{}, err)
			r.after(began, time.Second)
		})
	})
	t.Run("timeout", func(t *testing.T) {
		bubble(t, chaos.Options{Timeout: 3 * time.Second}, func(r *rig) {
			r.link.Cut(chaos.All)
			began := time.Now()
			_, err := r.acquire("a", time.Minute)
			lost(r, driver.Result{}, err)
			r.after(began, 3*time.Second)
		})
	})
	t.Run("one client only", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			other := chaos.New(r.inner, nil)
			defer other.Close()
			r.link.Cut(chaos.All)
			if res, err := other.Acquire(r.Context(), request("b")); err != nil || !res.Granted {
				t.Errorf("%+v, %v: the other link is cut too", res, err)
			}
		})
	})
}

func TestWatch(t *testing.T) {
	// wakes reports whether the release of a holder wakes the waiter behind the link.
	wakes := func(r *rig, before func()) bool {
		r.Helper()
		res, err := r.inner.Acquire(r.Context(), request("holder"))
		granted(r, res, err)
		w := r.link.Watch(r.Context(), driver.ID{Key: "k"})
		before()
		if err := r.inner.Release(r.Context(), request("holder").ID); err != nil {
			r.Fatal(err)
		}
		select {
		case <-w:
			return true
		case <-time.After(time.Minute):
			return false
		}
	}
	t.Run("passes on", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			if !wakes(r, func() {}) {
				t.Error("no wake-up")
			}
			r.reported()
		})
	})
	t.Run("lost by command", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			r.link.Next(chaos.Watch, chaos.Action{Kind: chaos.WakeLost})
			if wakes(r, func() {}) {
				t.Error("a wake-up")
			}
			r.reported(`a: watch of "k" wake lost, 0s`)
			if !wakes(r, func() {}) {
				t.Error("the second one is lost too")
			}
		})
	})
	t.Run("cut", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			if wakes(r, func() { r.link.Cut(chaos.Wakes) }) {
				t.Error("a wake-up")
			}
			res, err := r.acquire("a", time.Second) // calls still work
			granted(r, res, err)
		})
	})
	t.Run("pushes arrive while requests are cut", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			if !wakes(r, func() { r.link.Cut(chaos.Requests) }) {
				t.Error("no wake-up")
			}
		})
	})
	t.Run("frozen", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			if wakes(r, r.link.Freeze) {
				t.Error("a wake-up")
			}
		})
	})
	t.Run("false by plan", func(t *testing.T) {
		bubble(t, chaos.Options{Plan: chaos.Plan{Chance: map[chaos.Kind]float64{chaos.WakeFalse: 1}}}, func(r *rig) {
			w := r.link.Watch(r.Context(), driver.ID{Key: "k"})
			select {
			case <-w:
			case <-time.After(time.Second):
				t.Error("no wake-up")
			}
			r.reported(`a: watch of "k" wake false, 0s`)
		})
	})
	t.Run("ends with ctx", func(t *testing.T) {
		bubble(t, chaos.Options{}, func(r *rig) {
			ctx, cancel := context.WithCancel(r.Context())
			w := r.link.Watch(ctx, driver.ID{Key: "k"})
			cancel()
			synctest.Wait()
			if wakes(r, func() {}) && len(w) != 0 {
				t.Error("a wake-up of a watch that has ended")
			}
		})
	})
}

func TestClose(t *testing.T) {
	bubble(t, chaos.Options{}, func(r *rig) {
		r.link.Next(chaos.Acquire, chaos.Action{Kind: chaos.Repeated, For: time.Hour})
		res, err := r.acquire("a", time.Second)
		granted(r, res, err)
		r.link.Watch(context.Background(), driver.ID{Key: "k"})
		r.link.Freeze()
		done := make(chan error)
		go func() {
			r.link.Cut(chaos.All)
			_, err := r.link.Acquire(context.Background(), request("b"))
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		r.link.Close()
		if err := <-done; err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v, want an unknown outcome", err)
		}
		r.after(began, 0)
		if _, err := r.link.Acquire(r.Context(), request("c")); !errors.Is(err, chaos.ErrClosed) {
			t.Errorf("%v after Close", err)
		}
		if r.link.Watch(r.Context(), driver.ID{Key: "k"}) != nil {
			t.Error("a watch after Close")
		}
		time.Sleep(2 * time.Hour)
		r.arrived("acquire a") // requests on their way are dropped
	})
}

func TestCall_obeys_ctx(t *testing.T) {
	bubble(t, chaos.Options{}, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := r.link.Acquire(ctx, request("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v with a ctx that has ended", err)
		}
		r.arrived()
	})
}

// all returns a chance for each fault that a call can meet.
func all(p float64) map[chaos.Kind]float64 {
	m := map[chaos.Kind]float64{}
	for k := chaos.RequestLost; k <= chaos.WakeFalse; k++ {
		m[k] = p
	}
	return m
}

// schedule returns the faults of 200 acquires and releases on the named link.
func schedule(t *testing.T, seed uint64, name string, calm time.Duration) (out []string) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		link := chaos.New(mem.New(), &chaos.Options{
			Name: name,
			Plan: chaos.Plan{Seed: seed, Chance: all(0.1), Delay: time.Second, Latency: time.Millisecond, Calm: calm},
			Observe: func(f chaos.Fault) {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, f.String())
			},
		})
		defer link.Close()
		for i := range 200 {
			r := request(fmt.Sprint(i))
			link.Acquire(t.Context(), r)
			link.Release(t.Context(), r.ID)
		}
	})
	return out
}

func TestPlan_same_seed_same_faults(t *testing.T) {
	a := schedule(t, 1, "a", 0)
	if b := schedule(t, 1, "a", 0); !slices.Equal(a, b) {
		t.Error("the same seed gave other faults")
	}
	if b := schedule(t, 2, "a", 0); slices.Equal(a, b) {
		t.Error("another seed gave the same faults")
	}
	if b := schedule(t, 1, "b", 0); slices.Equal(a[:10], b[:10]) {
		t.Error("another client met the same faults")
	}
	// 400 calls, 7 kinds at one in ten.
	if len(a) < 200 || len(a) > 360 {
		t.Errorf("%d faults, want about 280", len(a))
	}
}

func TestPlan_calm(t *testing.T) {
	all, some := schedule(t, 1, "a", 0), schedule(t, 1, "a", 10*time.Second)
	if len(some) == 0 || len(some) >= len(all) || !slices.Equal(all[:len(some)], some) {
		t.Errorf("%d faults before the calm, %d without one", len(some), len(all))
	}
}

func TestNew_refuses_bad_chances(t *testing.T) {
	for _, m := range []map[chaos.Kind]float64{
		{chaos.ReplyLost: -0.1},
		{chaos.ReplyLost: 0.6, chaos.RequestLost: 0.6},
		{chaos.WakeLost: 0.6, chaos.WakeFalse: 0.6},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is a plan", m)
				}
			}()
			chaos.New(mem.New(), &chaos.Options{Plan: chaos.Plan{Chance: m}})
		}()
	}
}

// Every verb is forwarded, and every verb can be lost.
func TestStore_verbs(t *testing.T) {
	id := request("a").ID
	for _, c := range []struct {
		verb chaos.Verb
		call func(ctx context.Context, s driver.Store) error
	}{
		{chaos.Acquire, func(ctx context.Context, s driver.Store) error { _, err := s.Acquire(ctx, request("a")); return err }},
		{chaos.Renew, func(ctx context.Context, s driver.Store) error {
			_, err := s.Renew(ctx, driver.Renewal{ID: id, TTL: time.Second})
			return err
		}},
		{chaos.RenewAll, func(ctx context.Context, s driver.Store) error {
			r := driver.Renewal{ID: id, TTL: time.Second}
			out := driver.RenewAll(ctx, s, []driver.Renewal{r, r})
			return errors.Join(out[0].Err, out[1].Err)
		}},
		{chaos.Show, func(ctx context.Context, s driver.Store) error {
			claims, err := driver.Show(ctx, s, "k")
			if err == nil && len(claims) != 1 {
				return fmt.Errorf("%d claims", len(claims))
			}
			return err
		}},
		{chaos.List, func(ctx context.Context, s driver.Store) error {
			n := 0
			for _, err := range driver.List(ctx, s, "") {
				if err != nil {
					return err
				}
				n++
			}
			if n != 1 {
				return fmt.Errorf("%d claims", n)
			}
			return nil
		}},
		{chaos.Inspect, func(ctx context.Context, s driver.Store) error { _, err := driver.Inspect(ctx, s); return err }},
		{chaos.Break, func(ctx context.Context, s driver.Store) error {
			claims, err := driver.Break(ctx, s, "k", 0, "why not")
			if err == nil && len(claims) != 1 {
				return fmt.Errorf("%d claims broken", len(claims))
			}
			return err
		}},
		{chaos.Release, func(ctx context.Context, s driver.Store) error { return s.Release(ctx, id) }},
	} {
		t.Run(string(c.verb), func(t *testing.T) {
			bubble(t, chaos.Options{}, func(r *rig) {
				res, err := r.inner.Acquire(r.Context(), request("a"))
				granted(r, res, err)
				r.link.Next(c.verb, chaos.Action{Kind: chaos.RequestLost, For: time.Millisecond})
				r.unknown(c.call(r.Context(), r.link))
				if err := c.call(r.Context(), r.link); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A store with only the required methods still has only these behind a link.
func TestStore_unsupported(t *testing.T) {
	bubble(t, chaos.Options{}, func(r *rig) {
		link := chaos.New(struct{ driver.Store }{r.inner}, nil)
		defer link.Close()
		if _, err := driver.Show(r.Context(), link, "k"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Show: %v", err)
		}
		if _, err := driver.Break(r.Context(), link, "k", 0, ""); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Break: %v", err)
		}
		if _, err := driver.Inspect(r.Context(), link); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Inspect: %v", err)
		}
		if driver.Watch(r.Context(), link, driver.ID{Key: "k"}) != nil {
			t.Error("Watch: not nil")
		}
	})
}
