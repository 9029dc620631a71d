package distlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
	"github.com/distlock/distlock/store/mem"
)

// TestLease_Downgrade_history lets readers and writers contend over slow links. Every other writer
// becomes a reader. The checker verifies that no writer holds at the same time as another writer or
// a reader, from the grant to the end of each hold, with the weight that the claim has at the time.
func TestLease_Downgrade_history(t *testing.T) {
	grants, lowered := 0, 0
	for seed := range uint64(100) {
		var rec *history.Recorder
		synctest.Test(t, func(t *testing.T) {
			rec = history.New()
			lowered += downgraders(t, seed, rec)
		})
		search := history.Search{Timeout: time.Minute, Dir: t.TempDir(), Name: "downgrade"}
		v, err := history.Verify(rec.History(), history.Rules{HandOver: 10 * time.Second}, search)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		grants += v.Grants
	}
	t.Logf("%d grants, %d downgrades, no violation", grants, lowered)
}

// downgraders lets clients contend until each has held ten times. It returns the number of
// downgrades.
func downgraders(t *testing.T, seed uint64, rec *history.Recorder) (lowered int) {
	rng, store := rand.New(rand.NewPCG(seed, 5)), mem.New()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for p := range 3 {
		name := fmt.Sprint("link-", p)
		link := chaos.New(store, &chaos.Options{Name: name, Plan: chaos.Plan{Seed: seed, Latency: 20 * time.Millisecond}})
		l, err := distlock.New(link)
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		defer l.Close(context.Background())
		for range 2 {
			mine := rand.New(rand.NewPCG(rng.Uint64(), 1))
			wg.Go(func() {
				for range 10 {
					write := mine.IntN(2) == 0
					if hold(t, rec, name, l, write, mine) {
						mu.Lock()
						lowered++
						mu.Unlock()
					}
				}
			})
		}
	}
	wg.Wait()
	return lowered
}

// hold holds once, and reports whether it became a reader.
func hold(t *testing.T, rec *history.Recorder, client string, l *distlock.Locker, write bool, rng *rand.Rand) (lowered bool) {
	pause := func() { time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond) }
	want, take := history.Want{Client: client, Key: "x", TTL: 30 * time.Second, Weight: 1, Limit: driver.Whole}, l.RLock
	if write {
		want.Weight, take = driver.Whole, l.Lock
	}
	h := rec.Acquire(want)
	lease, err := take(t.Context(), "x", distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventWaiting {
			h.Waiting()
		}
	}))
	if err != nil {
		t.Error(err)
		return false
	}
	h.Granted(lease.Fence(), lease.Until())
	pause()
	if write && rng.IntN(2) == 0 {
		call := h.Lower(1)
		reader, err := lease.Downgrade(t.Context())
		call.End(workload.Outcome(err))
		if err != nil {
			t.Error(err)
			return false
		}
		lease, lowered = reader, true
		pause()
		if lease.Err() == nil {
			h.Trusted()
		}
	}
	release := h.Release()
	release.End(workload.Outcome(lease.Unlock(t.Context())))
	pause()
	return lowered
}
