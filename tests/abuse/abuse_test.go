package abuse_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/remote"
)

// good is the number of good clients. Each acquires and releases a lock 50 times a second.
const good = 8

func goodName(i int) string { return fmt.Sprint("good-", i) }

func storeOf(t *testing.T, addr, name string) *remote.Store {
	t.Helper()
	s, err := remote.Open(t.Context(), "http://"+addr, &remote.Options{Token: func() (string, error) { return name, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// measure returns how long the pairs of good clients took, and how many of them failed.
func measure(ctx context.Context, stores []*remote.Store, d time.Duration) (took []time.Duration, failed int) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			r := driver.Request{ID: driver.ID{Key: goodName(i), Owner: "good"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
			each(ctx, 20*time.Millisecond, func() {
				began := time.Now()
				_, err := s.Acquire(context.WithoutCancel(ctx), r)
				if err == nil {
					err = s.Release(context.WithoutCancel(ctx), r.ID)
				}
				mu.Lock()
				defer mu.Unlock()
				if took = append(took, time.Since(began)); err != nil {
					failed++
				}
			})
		})
	}
	all.Wait()
	slices.Sort(took)
	return took, failed
}

// Rude clients harm only themselves: those that send a request byte by byte, those that do not
// receive, and one with ten times its rate. No call of the others fails, and no lease is lost. With
// -abuse, the p99 of the others is at most twice the one next to a handler that refuses the same
// load at once.
func TestAbuse(t *testing.T) {
	t.Parallel()
	rude, rounds, each := load{slow: 50, stalled: 5, calls: 10 * rate}, 1, 2*time.Second
	if *whole {
		rude.slow, rude.stalled, rounds, each = 1_000, 100, 5, 10*time.Second
	}
	p := testenv.Helper(t, role)
	server, refuser := p.Line(), p.Line()
	leases, lost := hold(t, server)
	var stores []*remote.Store
	for i := range good {
		stores = append(stores, storeOf(t, server, goodName(i)))
	}
	var ratios []float64
	for n := range rounds {
		var p99 [2]time.Duration
		for i, addr := range []string{refuser, server} {
			ctx, end := context.WithCancel(t.Context())
			l := load{slow: rude.slow, stalled: rude.stalled, calls: rude.calls}
			var running sync.WaitGroup
			running.Go(func() { l.run(ctx, addr) })
			time.Sleep(each / 4)
			took, failed := measure(ctx, stores, each)
			end()
			running.Wait()
			if failed > 0 {
				t.Errorf("%d of %d calls of good clients failed", failed, len(took))
			}
			if addr == server && l.refused.Load() == 0 {
				t.Error("no call of the rude client was refused")
			}
			p99[i] = took[len(took)*99/100]
			t.Logf("round %d, rude clients at %s: %d pairs, p50 %v, p99 %v; %d calls of the rude client, %d refused, %d slow connections cut",
				n+1, []string{"the refuser", "the server"}[i], len(took), took[len(took)/2], p99[i], l.sent.Load(), l.refused.Load(), l.cut.Load())
		}
		ratios = append(ratios, float64(p99[1])/float64(p99[0]))
	}
	if n := lost.Load(); n > 0 {
		t.Errorf("%d of %d leases were lost", n, leases)
	}
	slices.Sort(ratios)
	if r := ratios[len(ratios)/2]; *whole {
		t.Logf("p99 next to rude clients: %.2f times that next to a handler that refuses them (median of %d rounds, %.2f to %.2f); %d leases, %d lost",
			r, rounds, ratios[0], ratios[len(ratios)-1], leases, lost.Load())
		if r > 2 {
			t.Errorf("%.2f times is over 2", r)
		}
	}
}

// hold holds leases with a short TTL until the test ends, and counts those that are lost.
func hold(t *testing.T, addr string) (n int, lost *atomic.Int64) {
	t.Helper()
	lost = &atomic.Int64{}
	l, err := distlock.New(storeOf(t, addr, "holder"), distlock.TTL(3*time.Second), distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventLost {
			lost.Add(1)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	const all = rate / 2 // within a second's budget
	for i := range all {
		if _, err := l.Lock(t.Context(), fmt.Sprint("held-", i)); err != nil {
			t.Fatal(err)
		}
	}
	return all, lost
}
