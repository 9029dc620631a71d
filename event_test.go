package distlock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func TestLease_events(t *testing.T) {
	ends := []distlock.EventKind{distlock.Released, distlock.HandedOff, distlock.Detached, distlock.Lost}
	lives := map[string]struct {
		live func(t *testing.T, w *wire, l *distlock.Locker)
		want []distlock.EventKind
	}{
		"released": {func(t *testing.T, _ *wire, l *distlock.Locker) {
			_ = taken(t, l, "x").Unlock(t.Context())
		}, []distlock.EventKind{distlock.Granted, distlock.Released}},
		"lost": {func(t *testing.T, w *wire, l *distlock.Locker) {
			lease := taken(t, l, "x")
			w.cut()
			<-lease.Done()
			_ = lease.Unlock(t.Context())
		}, []distlock.EventKind{distlock.Granted, distlock.AtRisk, distlock.Lost}},
		"given away": {func(t *testing.T, _ *wire, l *distlock.Locker) {
			lease := taken(t, l, "x")
			_, _ = lease.Handle()
			_ = lease.Unlock(t.Context())
		}, []distlock.EventKind{distlock.Granted, distlock.Detached}},
		"refused": {func(t *testing.T, w *wire, l *distlock.Locker) {
			_ = taken(t, lockerOn(t, w), "x")
			_, _ = l.TryLock(t.Context(), "x")
		}, []distlock.EventKind{distlock.Refused}},
		"unavailable": {func(t *testing.T, w *wire, l *distlock.Locker) {
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			_, _ = l.Lock(t.Context(), "x")
		}, []distlock.EventKind{distlock.Refused}},
		"waited in vain": {func(t *testing.T, w *wire, l *distlock.Locker) {
			_ = taken(t, lockerOn(t, w), "x")
			_, _ = l.Lock(t.Context(), "x", distlock.Wait(time.Minute))
		}, []distlock.EventKind{distlock.Waiting, distlock.Withdrawn, distlock.Refused}},
		"attached": {func(t *testing.T, w *wire, l *distlock.Locker) {
			h, _ := taken(t, lockerOn(t, w), "x").Handle()
			lease, err := l.Attach(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Unlock(t.Context())
			_, _ = l.Attach(t.Context(), h)
		}, []distlock.EventKind{distlock.Granted, distlock.Released, distlock.Refused}},
		"closed": {func(t *testing.T, _ *wire, l *distlock.Locker) {
			_ = taken(t, l, "x")
			_ = l.Close(t.Context())
		}, []distlock.EventKind{distlock.Granted, distlock.Released}},
		"longest hold": {func(t *testing.T, _ *wire, l *distlock.Locker) {
			<-taken(t, l, "x", distlock.MaxHold(time.Minute)).Done()
		}, []distlock.EventKind{distlock.Granted, distlock.Lost}},
	}
	for name, c := range lives {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := newWire(), &tape{}
				l := lockerOn(t, w, distlock.Observe(p.observe), distlock.Holder("me"))
				c.live(t, w, l)
				synctest.Wait()
				wantStory(t, p, c.want...)
				if g, e := len(p.all(distlock.Granted)), len(p.all(ends...)); g != e {
					t.Errorf("%d grants and %d ends", g, e)
				}
				for _, e := range p.all() {
					if e.Key != "x" || e.Store != "mem" || e.Holder != "me" || e.Mode != distlock.Exclusive {
						t.Errorf("%+v", e)
					}
				}
			})
		})
	}
	t.Run("handed off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &tape{}
			l := lockerOn(t, newWire(), distlock.Observe(p.observe))
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
			byFence := map[uint64][]distlock.EventKind{}
			for _, e := range p.all(append(slices.Clone(ends), distlock.Granted)...) {
				byFence[e.Fence] = append(byFence[e.Fence], e.Kind)
			}
			if len(byFence) != 11 {
				t.Errorf("%d fences for 11 leases", len(byFence))
			}
			for f, kinds := range byFence {
				if len(kinds) != 2 || !slices.Contains(kinds, distlock.Granted) {
					t.Errorf("fence %d: %q", f, kinds)
				}
			}
			if n := len(p.all(distlock.HandedOff)); n != 10 {
				t.Errorf("%d of 10 were handed off", n)
			}
		})
	})
}
