package distlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
)

func TestEvent_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newFlakyStore(), &tape{}
		l := lockerOn(t, w, distlock.Observe(p.observe))
		slow := func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil }
		lease := taken(t, lockerOn(t, w), "x")
		w.on(slow, nil)
		_, _ = l.Lock(t.Context(), "x", distlock.MaxWait(time.Second))
		r := p.all(distlock.EventRefused)[0]
		if r.Took < time.Second || r.Wait != r.Took-100*time.Millisecond || !r.Waited {
			t.Errorf("%+v", r)
		}
		w.mend()
		time.AfterFunc(time.Minute, func() { _ = lease.Unlock(t.Context()) })
		_ = must(t)(l.Lock(t.Context(), "x")).Unlock(t.Context())
		g := p.all(distlock.EventGranted)[0]
		if g.Took != time.Minute || g.Wait != time.Minute || !g.Waited {
			t.Errorf("%+v", g)
		}
		_ = taken(t, l, "y")
		if g := p.all(distlock.EventGranted)[1]; g.Wait != 0 || g.Waited {
			t.Errorf("no claim was in the way: %+v", g)
		}
	})
}

func TestEvent_wait_ofALimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tape{}
		m, err := lockerOn(t, newFlakyStore(), distlock.Observe(p.observe)).Limiter(2000, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := m.Wait(t.Context(), "x", distlock.Weight(2000)); err != nil {
				t.Fatal(err)
			}
		}
		g := p.all(distlock.EventGranted)
		if g[0].Wait != 0 || g[0].Waited || g[1].Wait < 50*time.Second || g[1].Wait > g[1].Took || !g[1].Waited {
			t.Errorf("%+v", g)
		}
	})
}

// A renewal is thin if it leaves less than a quarter of the TTL.
func TestEvent_margin(t *testing.T) {
	const ttl = 30 * time.Second
	for name, c := range map[string]struct {
		away   time.Duration // how long the store does not answer after the grant
		thin   bool
		margin [2]time.Duration
	}{
		"in time":    {0, false, [2]time.Duration{18 * time.Second, 20 * time.Second}},
		"late":       {18 * time.Second, false, [2]time.Duration{ttl / 4, 11 * time.Second}},
		"at the end": {25 * time.Second, true, [2]time.Duration{1, 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := newFlakyStore(), &tape{}
				lease := taken(t, lockerOn(t, w, distlock.Observe(p.observe), distlock.TTL(ttl)), "x", distlock.MaxHold(c.away+15*time.Second))
				if c.away > 0 {
					w.cut()
					time.Sleep(c.away)
					w.mend()
				}
				time.Sleep(11*time.Second + 100*time.Millisecond)
				if err := lease.Err(); err != nil {
					t.Fatal(err)
				}
				var good []distlock.Event
				for _, e := range p.all(distlock.EventRenewed) {
					switch {
					case e.Err == nil:
						good = append(good, e)
					case e.Margin != 0 || e.Thin:
						t.Errorf("a renewal that failed: %+v", e)
					}
				}
				// MaxHold shortens Left, not Margin.
				if e := good[0]; e.Margin < c.margin[0] || e.Margin > c.margin[1] || e.Thin != c.thin || e.Risk != (c.away > 0) || e.Left >= e.Margin && c.away == 0 {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// A provisional lease begins with a part of its TTL: its small trust is no thin renewal.
func TestEvent_margin_ofAProvisionalLease(t *testing.T) {
	events := &tape{}
	pushed(t, []distlock.Option{distlock.Observe(events.observe)}, func(t *testing.T, p *pushTest) {
		free(t, p.first)
		_ = p.second.now(t)
		time.Sleep(time.Second)
		if g := events.all(distlock.EventGranted)[0]; g.Left > 3*time.Second {
			t.Fatalf("the store pushed no grant: %+v", g)
		}
		if r := events.all(distlock.EventRenewed); len(r) != 1 || r[0].Margin != 0 || r[0].Thin || r[0].Err != nil {
			t.Errorf("%+v", r)
		}
	})
}

// The event of a loss says whether the store had failed before, also if Unlock detects the loss.
func TestEvent_risk(t *testing.T) {
	for name, c := range map[string]struct {
		live func(t *testing.T, w *flakyStore, lease *distlock.Lease)
		risk bool
	}{
		"the store is away": {func(_ *testing.T, w *flakyStore, lease *distlock.Lease) {
			w.cut()
			<-lease.Done()
		}, true},
		"the store hangs": {func(_ *testing.T, w *flakyStore, lease *distlock.Lease) {
			w.freeze()
			<-lease.Done()
		}, true},
		"longest hold": {func(_ *testing.T, _ *flakyStore, lease *distlock.Lease) { <-lease.Done() }, false},
		"gone": {func(t *testing.T, w *flakyStore, lease *distlock.Lease) {
			if _, err := w.Break(t.Context(), "x", 0, "a test"); err != nil {
				t.Error(err)
			}
			_ = lease.Unlock(t.Context())
		}, false},
		"gone while the store was away": {func(t *testing.T, w *flakyStore, lease *distlock.Lease) {
			if _, err := w.Break(t.Context(), "x", 0, "a test"); err != nil {
				t.Error(err)
			}
			w.cut()
			time.Sleep(12 * time.Second)
			w.mend()
			_ = lease.Unlock(t.Context())
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := newFlakyStore(), &tape{}
				c.live(t, w, taken(t, lockerOn(t, w, distlock.Observe(p.observe)), "x", distlock.MaxHold(time.Minute)))
				synctest.Wait()
				lost := p.all(distlock.EventLost)
				if len(lost) != 1 || lost[0].Risk != c.risk {
					t.Errorf("%+v", lost)
				}
			})
		})
	}
}

// The Origin of every event has the values of the call's context and does not end with it. The
// context of a renewal or a loss is the same.
func TestEvent_origin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		w := newFlakyStore()
		var mu sync.Mutex
		seen := map[distlock.EventType]bool{}
		l := lockerOn(t, w, distlock.Observe(func(ctx context.Context, e distlock.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen[e.Type] = true
			if e.Origin.Value(key{}) != e.Name || e.Origin.Err() != nil {
				t.Errorf("%s of %s: the origin is %v, %v", e.Type, e.Name, e.Origin.Value(key{}), e.Origin.Err())
			}
			switch e.Type {
			case distlock.EventRenewed, distlock.EventAtRisk, distlock.EventRecovered, distlock.EventLost:
				if ctx.Value(key{}) != e.Name || ctx.Err() != nil {
					t.Errorf("%s of %s: the context is %v", e.Type, e.Name, ctx)
				}
			}
		}))
		lock := func(name string) *distlock.Lease {
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, name))
			defer cancel()
			lease, err := l.Lock(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		a, b, c := lock("a"), lock("b"), lock("c")
		_, _ = c.Detach(t.Context())
		w.cut()
		time.Sleep(15 * time.Second)
		w.mend()
		time.Sleep(time.Minute)
		_ = b.Unlock(t.Context())
		w.cut()
		<-a.Done()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, kind := range []distlock.EventType{
			distlock.EventGranted, distlock.EventDetached, distlock.EventRenewed, distlock.EventAtRisk,
			distlock.EventRecovered, distlock.EventReleased, distlock.EventLost,
		} {
			if !seen[kind] {
				t.Errorf("%s did not happen", kind)
			}
		}
	})
}

// A writer becomes a reader: the event of this grant has no wait.
func TestEvent_downgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tape{}
		lease := taken(t, lockerOn(t, newFlakyStore(), distlock.Observe(p.observe)), "x")
		time.Sleep(time.Minute)
		reader, err := lease.Downgrade(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = reader.Unlock(t.Context())
		wantStory(t, p, distlock.EventGranted, distlock.EventHandedOff, distlock.EventGranted, distlock.EventReleased)
		if g := p.all(distlock.EventGranted)[1]; g.Took != 0 || g.Mode != distlock.ModeShared {
			t.Errorf("%+v", g)
		}
	})
}
