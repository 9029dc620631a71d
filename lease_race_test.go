package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// All calls that end or change a lease run at the same time. In any order, each grant has one end,
// no two leases are held together, and nothing is left behind.
func TestLease_endsOnce(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endOnce(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func endOnce(t *testing.T, r *rand.Rand) {
	w, p := newFlakyStore(), &tape{}
	l := lockerOn(t, w, distlock.Observe(p.observe), distlock.TTL(time.Second), distlock.MaxHold(2*time.Second))
	pause := func() time.Duration { return time.Duration(r.IntN(2500)) * time.Millisecond }
	slow := time.Duration(r.IntN(4)) * 40 * time.Millisecond
	w.on(func(context.Context, string) error { time.Sleep(slow); return nil }, nil)

	lease := taken(t, l, "x")
	ctx := lease.Context(t.Context())
	var wg sync.WaitGroup
	later := func(f func()) {
		d := pause()
		wg.Go(func() { time.Sleep(d); f() })
	}
	var mu sync.Mutex
	holders := []*distlock.Lease{lease}
	broken := false // then the holder before does not know yet
	hold := func(next *distlock.Lease) {
		mu.Lock()
		for _, h := range holders {
			if h.Err() == nil && !broken {
				t.Error("two hold it")
			}
		}
		holders = append(holders, next)
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		_ = next.Unlock(t.Context())
	}
	for range 3 { // they get the lock by a hand-off, or wait until it is free
		later(func() {
			if next, err := l.Lock(t.Context(), "x"); err == nil {
				hold(next)
			}
		})
	}
	var handle distlock.Handle
	deeds := []func(){
		func() { _ = lease.Unlock(t.Context()) },
		func() { _ = lease.Unlock(t.Context()) },
		func() { _ = lease.Extend(t.Context(), 100*time.Millisecond) },
		func() { _ = lease.Extend(t.Context(), time.Minute) },
		func() {
			if h, err := lease.Detach(t.Context()); err == nil {
				mu.Lock()
				handle = h
				mu.Unlock()
			}
		},
		func() { _ = l.ReleaseAll(t.Context()) },
		func() { w.cut(); time.Sleep(300 * time.Millisecond); w.mend() },
		func() { w.deafen("release"); time.Sleep(300 * time.Millisecond); w.mend() },
		func() {
			mu.Lock()
			broken = true
			mu.Unlock()
			_, _ = driver.Break(t.Context(), w, "x", 0, "")
		},
		func() { _ = lease.Context(t.Context()).Err() },
		func() { _ = l.Close(t.Context()) },
	}
	r.Shuffle(len(deeds), func(i, j int) { deeds[i], deeds[j] = deeds[j], deeds[i] })
	for _, deed := range deeds[:5] {
		later(deed)
	}
	wg.Wait()
	w.mend()
	first := lease.Unlock(t.Context())
	if again := lease.Unlock(t.Context()); again != first { //nolint:errorlint // the same value
		t.Errorf("Unlock returned %v, then %v", first, again)
	}
	if lease.Err() == nil || lease.Valid(0) || !isClosed(lease.Done()) || !isClosed(ctx.Done()) || context.Cause(ctx) == nil {
		t.Error("it has not ended")
	}
	if err := lease.Err(); !errors.Is(err, distlock.ErrLost) && !errors.Is(err, distlock.ErrReleased) {
		t.Errorf("it ended with %v", err)
	}
	_ = l.Close(t.Context())
	synctest.Wait()

	ends := map[uint64]int{}
	for _, e := range p.all(distlock.EventGranted) {
		ends[e.Fence]++
	}
	for _, e := range p.all(distlock.EventReleased, distlock.EventHandedOff, distlock.EventDetached, distlock.EventLost) {
		ends[e.Fence]--
	}
	for f, n := range ends {
		if n != 0 {
			t.Errorf("fence %d: %d ends are missing: %q", f, n, p.story())
		}
	}
	time.Sleep(2 * time.Minute)
	if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) > 0 {
		t.Errorf("left behind: %+v", claims)
	}
	if handle != (distlock.Handle{}) && !slices.Contains(p.story(), distlock.EventDetached) {
		t.Error("a handle, but no event of it")
	}
}
