package distlock_test

import (
	"context"
	"errors"
	"maps"
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
		live func(t *testing.T, w *flakyStore, l *distlock.Locker)
		want []distlock.EventType
	}{
		"released": {func(t *testing.T, _ *flakyStore, l *distlock.Locker) {
			_ = taken(t, l, "x").Unlock(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventReleased}},
		"lost": {func(t *testing.T, w *flakyStore, l *distlock.Locker) {
			lease := taken(t, l, "x")
			w.cut()
			<-lease.Done()
			_ = lease.Unlock(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventAtRisk, distlock.EventLost}},
		"given away": {func(t *testing.T, _ *flakyStore, l *distlock.Locker) {
			lease := taken(t, l, "x")
			_, _ = lease.Detach(t.Context())
			_ = lease.Unlock(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventDetached}},
		"refused": {func(t *testing.T, w *flakyStore, l *distlock.Locker) {
			_ = taken(t, lockerOn(t, w), "x")
			_, _ = l.TryLock(t.Context(), "x")
		}, []distlock.EventType{distlock.EventRefused}},
		"unavailable": {func(t *testing.T, w *flakyStore, l *distlock.Locker) {
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			_, _ = l.Lock(t.Context(), "x")
		}, []distlock.EventType{distlock.EventRefused}},
		"not granted": {func(t *testing.T, w *flakyStore, l *distlock.Locker) {
			_ = taken(t, lockerOn(t, w), "x")
			_, _ = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
		}, []distlock.EventType{distlock.EventWaiting, distlock.EventWithdrawn, distlock.EventRefused}},
		"attached": {func(t *testing.T, w *flakyStore, l *distlock.Locker) {
			h, _ := taken(t, lockerOn(t, w), "x").Detach(t.Context())
			lease, err := l.Attach(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Unlock(t.Context())
			_, _ = l.Attach(t.Context(), h)
		}, []distlock.EventType{distlock.EventGranted, distlock.EventReleased, distlock.EventRefused}},
		"closed": {func(t *testing.T, _ *flakyStore, l *distlock.Locker) {
			_ = taken(t, l, "x")
			_ = l.Close(t.Context())
		}, []distlock.EventType{distlock.EventGranted, distlock.EventReleased}},
		"longest hold": {func(t *testing.T, _ *flakyStore, l *distlock.Locker) {
			<-taken(t, l, "x", distlock.MaxHold(time.Minute)).Done()
		}, []distlock.EventType{distlock.EventGranted, distlock.EventLost}},
	}
	for name, c := range lives {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := newFlakyStore(), &tape{}
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
			l := lockerOn(t, newFlakyStore(), distlock.Observe(p.observe))
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
		w := newFlakyStore()
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
	l := lockerOn(t, newFlakyStore(), distlock.Observe(note("a")), distlock.Observe(nil), distlock.Observe(note("b")))
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
		l := lockerOn(t, newFlakyStore(), distlock.Observe(func(ctx context.Context, e distlock.Event) { got[e.Type] = ctx.Value(key{}) }))
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
		w, p := newFlakyStore(), &tape{}
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
