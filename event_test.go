package distlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func TestLease_events(t *testing.T) {
	ends := []distlock.EventType{distlock.EventReleased, distlock.EventHandedOff, distlock.EventDetached, distlock.EventLost}
	lives := map[string]struct {
		live func(t *testing.T, w *gate, l *distlock.Locker)
		want []distlock.EventType
	}{
		"released": {func(t *testing.T, _ *gate, l *distlock.Locker) {
			_ = taken(t, l, "x").Unlock(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventReleased}},
		"lost": {func(t *testing.T, w *gate, l *distlock.Locker) {
			lease := taken(t, l, "x")
			w.cut()
			<-lease.Done()
			_ = lease.Unlock(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventAtRisk, distlock.EventLost}},
		"given away": {func(t *testing.T, _ *gate, l *distlock.Locker) {
			lease := taken(t, l, "x")
			_, _ = lease.Detach(t.Context())
			_ = lease.Unlock(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventDetached}},
		"refused": {func(t *testing.T, w *gate, l *distlock.Locker) {
			_ = taken(t, lockerOn(t, w), "x")
			_, _ = l.TryLock(t.Context(), "x")
		}, []distlock.EventType{distlock.EventRefused}},
		"unavailable": {func(t *testing.T, w *gate, l *distlock.Locker) {
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			_, _ = l.Lock(t.Context(), "x")
		}, []distlock.EventType{distlock.EventRefused}},
		"not granted": {func(t *testing.T, w *gate, l *distlock.Locker) {
			_ = taken(t, lockerOn(t, w), "x")
			_, _ = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
		}, []distlock.EventType{distlock.EventWaiting, distlock.EventWithdrawn, distlock.EventRefused}},
		"attached": {func(t *testing.T, w *gate, l *distlock.Locker) {
			h, _ := taken(t, lockerOn(t, w), "x").Detach(t.Context())
			lease, err := l.Attach(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Unlock(t.Context())
			_, _ = l.Attach(t.Context(), h)
		}, []distlock.EventType{distlock.EventGranted, distlock.EventReleased, distlock.EventRefused}},
		"closed": {func(t *testing.T, _ *gate, l *distlock.Locker) {
			_ = taken(t, l, "x")
			_ = l.Close(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventReleased}},
		"longest hold": {func(t *testing.T, _ *gate, l *distlock.Locker) {
			<-taken(t, l, "x", distlock.MaxHold(time.Minute)).Done()
		}, []distlock.EventType{distlock.EventGranted, distlock.EventLost}},
	}
	for name, c := range lives {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := newGate(), &tape{}
				l := lockerOn(t, w, distlock.Observe(p.observe), distlock.Holder("me"))
				c.live(t, w, l)
				synctest.Wait()
				wantStory(t, p, c.want...)
				if g, e := len(p.all(distlock.EventGranted)), len(p.all(ends...)); g != e {
					t.Errorf("%d grants and %d ends", g, e)
				}
				for _, e := range p.all() {
					if e.Name != "x" || e.Store != "mem" || e.Holder != "me" || e.Mode != distlock.ModeExclusive {
						t.Errorf("%+v", e)
					}
				}
			})
		})
	}
	t.Run("handed off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &tape{}
			l := lockerOn(t, newGate(), distlock.Observe(p.observe))
			lease := taken(t, l, "x")
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					lease, err := l.Lock(t.Context(), "x")
					if err != nil {
						t.Error(err)
						return
					}
					_ = lease.Unlock(t.Context())
				})
			}
			synctest.Wait()
			_ = lease.Unlock(t.Context())
			wg.Wait()
			byFence := map[uint64][]distlock.EventType{}
			for _, e := range p.all(append(slices.Clone(ends), distlock.EventGranted)...) {
				byFence[e.Fence] = append(byFence[e.Fence], e.Type)
			}
			if len(byFence) != 11 {
				t.Errorf("%d fences for 11 leases", len(byFence))
			}
			for f, kinds := range byFence {
				if len(kinds) != 2 || !slices.Contains(kinds, distlock.EventGranted) {
					t.Errorf("fence %d: %q", f, kinds)
				}
			}
			if n := len(p.all(distlock.EventHandedOff)); n != 10 {
				t.Errorf("%d of 10 were handed off", n)
			}
		})
	})
}

// No mutex is held while an observer runs: an observer may use leases, and may be slow.
func TestEvent_observerIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		var lease atomic.Pointer[distlock.Lease]
		var l *distlock.Locker
		seen := map[distlock.EventType]bool{}
		var mu sync.Mutex
		observe := func(ctx context.Context, e distlock.Event) {
			if ctx == nil {
				t.Error("no context")
			}
			if x := lease.Load(); x != nil {
				_, _, _, _ = x.Err(), x.Valid(0), x.Wanted(), x.Done()
				_ = x.Context(t.Context()).Err()
			}
			if _, err := l.Status(t.Context(), distlock.KindLock, "x"); err != nil && !errors.Is(err, distlock.ErrClosed) && !errors.Is(err, errCut) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[e.Type] = true
		}
		l = lockerOn(t, w, distlock.Observe(observe), distlock.TTL(time.Second))
		first := taken(t, l, "x")
		lease.Store(first)
		next := make(chan *distlock.Lease, 1)
		go func() { lease, _ := l.Lock(t.Context(), "x"); next <- lease }()
		synctest.Wait()
		_ = first.Unlock(t.Context())
		second := <-next
		lease.Store(second)
		w.cut()
		time.Sleep(500 * time.Millisecond)
		w.mend()
		time.Sleep(time.Minute)
		h, _ := second.Detach(t.Context())
		third, err := l.Attach(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		lease.Store(third)
		_, _ = l.TryLock(t.Context(), "x")
		w.cut()
		<-third.Done()
		w.mend()
		time.Sleep(time.Minute)
		fourth := taken(t, l, "x")
		go func() { _, _ = lockerOn(t, w).Lock(t.Context(), "x", distlock.MaxWait(time.Second)) }()
		_ = fourth.Unlock(t.Context())
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, kind := range []distlock.EventType{
			distlock.EventAttempted, distlock.EventWaiting, distlock.EventGranted, distlock.EventRefused, distlock.EventRenewed, distlock.EventAtRisk, distlock.EventRecovered, distlock.EventLost,
			distlock.EventReleased, distlock.EventHandedOff, distlock.EventDetached,
		} {
			if !seen[kind] {
				t.Errorf("%s did not happen", kind)
			}
		}
	})
}

func TestObserve_several(t *testing.T) {
	var order []string
	note := func(who string) distlock.Observer {
		return func(_ context.Context, e distlock.Event) {
			if e.Type == distlock.EventGranted {
				order = append(order, who)
			}
		}
	}
	l := lockerOn(t, newGate(), distlock.Observe(note("a")), distlock.Observe(nil), distlock.Observe(note("b")))
	taken(t, l, "x", distlock.Observe(note("c")), distlock.Observe(nil))
	if got := strings.Join(order, ""); got != "abc" {
		t.Errorf("observed by %s, want abc", got)
	}
	order = nil
	taken(t, l, "y")
	if got := strings.Join(order, ""); got != "ab" {
		t.Errorf("observed by %s, want ab", got)
	}
}

// The context of an event is the context of the call, with its values.
func TestEvent_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		got := map[distlock.EventType]any{}
		l := lockerOn(t, newGate(), distlock.Observe(func(ctx context.Context, e distlock.Event) { got[e.Type] = ctx.Value(key{}) }))
		lease, err := l.Lock(context.WithValue(t.Context(), key{}, "lock"), "x")
		if err != nil {
			t.Fatal(err)
		}
		_ = lease.Unlock(context.WithValue(t.Context(), key{}, "unlock"))
		_, _ = l.TryLock(context.WithValue(t.Context(), key{}, "try"), "y")
		_, _ = l.TryLock(context.WithValue(t.Context(), key{}, "again"), "y")
		want := map[distlock.EventType]any{
			distlock.EventAttempted: "again", distlock.EventGranted: "try", distlock.EventReleased: "unlock", distlock.EventRefused: "again",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestEvent_figures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newGate(), &tape{}
		l := lockerOn(t, w, distlock.Observe(p.observe), distlock.Holder("me"))
		w.on(func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil }, nil)
		lease := taken(t, l, "x")
		g := p.all(distlock.EventGranted)[0]
		if g.Took != 100*time.Millisecond || g.Left != trustOf(30*time.Second)-100*time.Millisecond || g.Fence != lease.Fence() || g.Handed || g.Waited {
			t.Errorf("%+v", g)
		}
		time.Sleep(15 * time.Second)
		r := p.all(distlock.EventRenewed)[0]
		if r.Took != 100*time.Millisecond || r.Err != nil || r.Left < 15*time.Second || r.Left > 21*time.Second {
			t.Errorf("%+v", r)
		}
		_ = lease.Unlock(t.Context())
		e := p.all(distlock.EventReleased)[0]
		if e.Took < 15*time.Second || e.Took > 15200*time.Millisecond || e.Err != nil {
			t.Errorf("%+v", e)
		}
	})
}

func TestEvent_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newGate(), &tape{}
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
		m, err := lockerOn(t, newGate(), distlock.Observe(p.observe)).Limiter(2000, time.Minute)
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
				w, p := newGate(), &tape{}
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
		live func(t *testing.T, w *gate, lease *distlock.Lease)
		risk bool
	}{
		"the store is away": {func(_ *testing.T, w *gate, lease *distlock.Lease) {
			w.cut()
			<-lease.Done()
		}, true},
		"the store hangs": {func(_ *testing.T, w *gate, lease *distlock.Lease) {
			w.freeze()
			<-lease.Done()
		}, true},
		"longest hold": {func(_ *testing.T, _ *gate, lease *distlock.Lease) { <-lease.Done() }, false},
		"gone": {func(t *testing.T, w *gate, lease *distlock.Lease) {
			if _, err := w.Break(t.Context(), "x", 0, "a test"); err != nil {
				t.Error(err)
			}
			_ = lease.Unlock(t.Context())
		}, false},
		"gone while the store was away": {func(t *testing.T, w *gate, lease *distlock.Lease) {
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
				w, p := newGate(), &tape{}
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
		w := newGate()
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
		lease := taken(t, lockerOn(t, newGate(), distlock.Observe(p.observe)), "x")
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

// A call whose observer panics holds no lock afterwards, and no call of this process or of another
// one waits for it.
func TestObserver_panics(t *testing.T) {
	lock := func(ctx context.Context, l *distlock.Locker) { _, _ = l.Lock(ctx, "k") }
	lockAll := func(ctx context.Context, l *distlock.Locker) { _, _ = l.LockAll(ctx, []string{"j", "k"}) }
	downgrade := func(ctx context.Context, l *distlock.Locker) {
		if lease, err := l.Lock(ctx, "k"); err == nil {
			_, _ = lease.Downgrade(ctx)
		}
	}
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, l *distlock.Locker)
		kind distlock.EventType
		nth  int
		held time.Duration // how long another process holds the lock
		late time.Duration // how long the observer sleeps
	}{
		{"granted by the store", lock, distlock.EventAttempted, 1, 0, 0},
		{"refused by the store", lock, distlock.EventAttempted, 1, time.Second, 0},
		{"waiting", lock, distlock.EventWaiting, 1, time.Second, 0},
		{"waiting and granted", lock, distlock.EventWaiting, 1, time.Second, 2 * time.Second},
		{"granted", lock, distlock.EventGranted, 1, 0, 0},
		{"granted after a wait", lock, distlock.EventGranted, 1, time.Second, 0},
		{"one of two granted", lockAll, distlock.EventGranted, 2, 0, 0},
		{"writer handed off", downgrade, distlock.EventHandedOff, 1, 0, 0},
		{"reader granted", downgrade, distlock.EventGranted, 2, 0, 0},
		{"lowered by the store", downgrade, distlock.EventAttempted, 2, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				rival, seen := g.locker(t), 0
				l := g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
					if e.Type != c.kind {
						return
					}
					if seen++; seen == c.nth {
						time.Sleep(c.late)
						panic("observer")
					}
				}))
				if c.held > 0 {
					first := must(t)(rival.Lock(t.Context(), "k"))
					time.AfterFunc(c.held, func() { free(t, first) })
				}
				if got := recovered(func() { c.do(t.Context(), l) }); got != "observer" {
					t.Errorf("the caller recovered %v", got)
				}
				time.Sleep(time.Minute) // a claim without an owner has expired
				g.empty(t, l, rival)
				free(t, must(t)(l.Lock(t.Context(), "k", distlock.MaxWait(time.Second))))
			})
		})
	}
}

// Calls that wait for a call whose observer panics continue when that call has ended.
func TestObserver_panics_othersGoOn(t *testing.T) {
	panics := distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventAttempted {
			panic("observer")
		}
	})
	for name, acquire := range map[string]func(ctx context.Context, l *distlock.Locker, m *distlock.Limiter, opts ...distlock.Option) error{
		"lock": func(ctx context.Context, l *distlock.Locker, _ *distlock.Limiter, opts ...distlock.Option) error {
			_, err := l.Lock(ctx, "k", opts...)
			return err
		},
		"shares": func(ctx context.Context, _ *distlock.Locker, m *distlock.Limiter, opts ...distlock.Option) error {
			return m.Allow(ctx, "k", opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l := g.locker(t)
				m := limiter(t, l, 2000, time.Minute)
				g.set(func(g *gate) {
					g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
						time.Sleep(time.Millisecond)
						return next(ctx, r)
					}
				})
				panicked, answer := make(chan any, 1), make(chan error, 1)
				go func() { panicked <- recovered(func() { _ = acquire(t.Context(), l, m, panics) }) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { answer <- acquire(ctx, l, m) }()
				if got := <-panicked; got != "observer" {
					t.Errorf("the caller recovered %v", got)
				}
				if err := <-answer; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// recovered runs f and returns the value of its panic.
func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := distlock.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	page, err := os.ReadFile("docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{} // the warnings of the page, and whether there is such a line
	for _, row := range regexp.MustCompile("(?m)^\\| `(distlock: [a-z_ ]+)`").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = false
	}
	base := distlock.Event{Kind: distlock.KindElection, Name: "x", Mode: distlock.ModeExclusive, Store: "mem", Holder: "me"}
	for _, c := range []struct {
		e    distlock.Event
		want string
	}{
		{distlock.Event{Type: distlock.EventAttempted, Took: time.Millisecond, Err: errCut}, `level=DEBUG msg="distlock: attempted" %s took=1ms error="connection cut"`},
		{distlock.Event{Type: distlock.EventWaiting}, `level=DEBUG msg="distlock: waiting" %s`},
		{
			distlock.Event{Type: distlock.EventGranted, Fence: 7, Took: time.Second, Wait: time.Millisecond, Left: 29 * time.Second, Handed: true, Behind: 3},
			`level=DEBUG msg="distlock: granted" %s fence=7 took=1s wait=1ms left=29s behind=3 handed=true`,
		},
		{
			distlock.Event{Type: distlock.EventRefused, Err: errors.Join(&distlock.HeldError{Name: "x", Holder: "you"}, distlock.ErrReleased)},
			`level=DEBUG msg="distlock: refused" %s error="distlock: \"x\" is held by you\ndistlock: lease released"`,
		},
		{
			distlock.Event{Type: distlock.EventRefused, Err: &distlock.DeadlockError{Name: "x", Cycle: []distlock.Task{{Holder: "me", Waits: distlock.Claim{Name: "x"}, Holds: []distlock.Claim{{Name: "x"}}}}}},
			`level=WARN msg="distlock: refused" %s error="distlock: deadlock: me holds \"x\" and waits for \"x\": it waits for itself"`,
		},
		{distlock.Event{Type: distlock.EventRenewed, Fence: 7}, `level=DEBUG msg="distlock: renewed" %s fence=7`},
		{
			distlock.Event{Type: distlock.EventRenewed, Fence: 7, Left: 7 * time.Second, Margin: 7 * time.Second, Thin: true},
			`level=WARN msg="distlock: renewed late" %s fence=7 left=7s`,
		},
		{distlock.Event{Type: distlock.EventAtRisk, Fence: 7, Left: time.Second, Err: errCut}, `level=WARN msg="distlock: at_risk" %s fence=7 left=1s error="connection cut"`},
		{distlock.Event{Type: distlock.EventRecovered, Fence: 7}, `level=DEBUG msg="distlock: recovered" %s fence=7`},
		{
			distlock.Event{Type: distlock.EventLost, Fence: 7, Err: &distlock.LostError{Name: "x", Reason: distlock.LossExpired}},
			`level=WARN msg="distlock: lost" %s fence=7 error="distlock: lease of \"x\" lost: not renewed in time"`,
		},
		{distlock.Event{Type: distlock.EventReleased, Fence: 7, Took: time.Minute}, `level=DEBUG msg="distlock: released" %s fence=7 took=1m0s`},
		{distlock.Event{Type: distlock.EventReleased, Fence: 7, Err: errCut}, `level=WARN msg="distlock: released" %s fence=7 error="connection cut"`},
		{distlock.Event{Type: distlock.EventHandedOff, Fence: 7}, `level=DEBUG msg="distlock: handed_off" %s fence=7`},
		{distlock.Event{Type: distlock.EventDetached, Fence: 7}, `level=DEBUG msg="distlock: detached" %s fence=7`},
		{distlock.Event{Type: distlock.EventWithdrawn}, `level=DEBUG msg="distlock: withdrawn" %s`},
	} {
		c.e.Kind, c.e.Name, c.e.Mode, c.e.Store, c.e.Holder = base.Kind, base.Name, base.Mode, base.Store, base.Holder
		out.Reset()
		log(t.Context(), c.e)
		want := fmt.Sprintf(c.want, "name=x kind=lead mode=exclusive store=mem") + "\n"
		if got := out.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if msg, ok := strings.CutPrefix(c.want, `level=WARN msg="`); ok {
			msg, _, _ = strings.Cut(msg, `"`)
			if _, ok := rows[msg]; !ok {
				t.Errorf("docs/observability.md has no row for the warning %q", msg)
			}
			rows[msg] = true
		}
	}
	for msg, ok := range rows {
		if !ok {
			t.Errorf("docs/observability.md has a row for %q, which is no warning", msg)
		}
	}
}

func TestLog_level(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.Observe(distlock.Log(slog.New(slog.NewTextHandler(&out, nil)))))
		_ = taken(t, l, "x").Unlock(t.Context())
		if out.Len() > 0 {
			t.Errorf("a success is logged at the default level: %s", out.String())
		}
		lease := taken(t, l, "x")
		w.cut()
		<-lease.Done()
		synctest.Wait()
	})
	if n := strings.Count(out.String(), "level=WARN"); n != 2 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("want a risk and a loss, got %s", out.String())
	}
}

// A store that answers late: the last attempt before the loss succeeds.
func TestLog_late(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.Observe(distlock.Log(slog.New(slog.NewTextHandler(&out, nil)))))
		lease := taken(t, l, "x")
		w.cut()
		time.Sleep(25 * time.Second)
		w.mend()
		time.Sleep(time.Minute)
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if s := out.String(); strings.Count(s, "\n") != 2 || !strings.Contains(s, `level=WARN msg="distlock: at_risk"`) || !strings.Contains(s, `level=WARN msg="distlock: renewed late"`) {
		t.Errorf("want a risk and a late renewal, got %s", s)
	}
}

// No line of a long log contains an owner.
func TestLog_showsNoOwner(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		l := lockerOn(t, w, distlock.Observe(distlock.Log(logger)))
		lease := taken(t, l, "x")
		_, err := l.TryLock(t.Context(), "x")
		logger.Error("refused", "err", err)
		_, err = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
		logger.Error("waited", "err", err)
		w.deafen("release")
		logger.Error("unlock", "err", lease.Unlock(t.Context()))
		w.mend()
		for range 2 {
			h, err := taken(t, l, "y").Detach(t.Context())
			logger.Info("handle", "handle", h, "err", err)
			lease, err := l.Attach(t.Context(), h)
			logger.Info("lease", "lease", lease, "err", err)
			w.cut()
			<-lease.Done()
			logger.Error("lost", "err", lease.Err(), "unlock", lease.Unlock(t.Context()))
			w.mend()
			time.Sleep(time.Minute)
			_, err = l.Attach(t.Context(), h)
			logger.Error("attach", "err", err)
		}
		why, _ := l.Status(t.Context(), distlock.KindLock, "x")
		logger.Info("why", "why", why, "text", why.String(), "all", fmt.Sprintf("%+v", why))
		synctest.Wait()
		if len(w.secrets()) < 4 {
			t.Fatalf("%d owners", len(w.secrets()))
		}
		for _, owner := range w.secrets() {
			if strings.Contains(out.String(), owner) {
				t.Errorf("the owner is in the log: %s", around(out.String(), owner))
			}
		}
		if n := strings.Count(out.String(), "\n"); n < 30 {
			t.Errorf("only %d lines", n)
		}
	})
}

func TestLog_nil(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	distlock.Log(nil)(context.Background(), distlock.Event{Type: distlock.EventLost, Name: "x"})
	if !strings.Contains(out.String(), "distlock: lost") {
		t.Errorf("%q", out.String())
	}
}
