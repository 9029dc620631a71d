package redis_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// The holder is cut off from the store, in one of several ways, and a rival is not. The last moment
// at which the holder's lease was valid comes before the return of the rival's Lock.
func TestPartition(t *testing.T) {
	t.Parallel()
	const ttl, runs = time.Second, 10
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Redis(t)
		partitions(t, runs, ttl, []string{srv.Addr},
			func(t testing.TB, addrs []string) driver.Store { return open(t, addrs[0]) })
	})
	t.Run("redlock", func(t *testing.T) {
		t.Parallel()
		var addrs []string
		for range 3 {
			addrs = append(addrs, testenv.Redis(t).Addr)
		}
		waitCounted(t, redlock(t, ttl, addrs...), ttl)
		partitions(t, runs, ttl, addrs,
			func(t testing.TB, addrs []string) driver.Store { return redlock(t, ttl, addrs...) })
	})
}

// ways are the ways to cut off a holder.
var ways = []struct {
	name string
	cut  func(p *testenv.ProxyServer)
}{
	{"both directions dropped", func(p *testenv.ProxyServer) { p.Cut(testenv.Both) }},
	{"replies dropped", func(p *testenv.ProxyServer) { p.Cut(testenv.ToClient) }},
	{"requests dropped", func(p *testenv.ProxyServer) { p.Cut(testenv.ToServer) }},
	{"both directions delayed", func(p *testenv.ProxyServer) { p.Hold(testenv.Both) }},
	{"refused", func(p *testenv.ProxyServer) { p.Refuse() }},
}

func partitions(t *testing.T, runs int, ttl time.Duration, addrs []string, open func(testing.TB, []string) driver.Store) {
	rng := chance(t)
	rival := locker(t, open(t, addrs), distlock.TTL(ttl))
	var mu sync.Mutex
	var overlaps []time.Duration
	t.Run("runs", func(t *testing.T) {
		for run := range runs {
			delay := upTo(rng, ttl) // anywhere between two renewals
			t.Run(fmt.Sprint(run, " ", ways[run%len(ways)].name), func(t *testing.T) {
				t.Parallel()
				overlap := cutOff(t, fmt.Sprint("key ", run), ttl, delay, ways[run%len(ways)].cut, rival,
					addrs, open)
				mu.Lock()
				defer mu.Unlock()
				overlaps = append(overlaps, overlap)
			})
		}
	})
	slices.Sort(overlaps)
	if len(overlaps) != runs {
		t.Fatalf("%d of %d runs ended", len(overlaps), runs)
	}
	t.Logf("%d partitions of a holder, TTL %v: overlap at most %v, median %v", runs, ttl,
		overlaps[runs-1].Round(time.Millisecond), overlaps[runs/2].Round(time.Millisecond))
}

// cutOff cuts off a holder, and returns the time with two holders. A negative result is the time
// without a holder.
func cutOff(
	t *testing.T, key string, ttl, delay time.Duration, cut func(*testenv.ProxyServer),
	rival *distlock.Locker, addrs []string,
	open func(testing.TB, []string) driver.Store,
) time.Duration {
	var proxies []*testenv.ProxyServer
	var through []string
	for _, addr := range addrs {
		p := testenv.Proxy(t, addr)
		proxies, through = append(proxies, p), append(through, p.Addr)
	}
	holder := locker(t, open(t, through), distlock.TTL(ttl))
	first, next := persist(t, holder, key), wait(t, rival, key)
	trusted := watch(first)
	time.Sleep(delay)
	for end := time.Now().Add(soon); first.Err() != nil; time.Sleep(delay) {
		// The lease was lost in a scheduler stall, and the rival has the key. The run starts again.
		if time.Now().After(end) {
			t.Fatalf("lost again and again before the fault: %v", first.Err())
		}
		trusted.lost(t, soon)
		release(t, granted(t, next, soon).lease)
		first, next = persist(t, holder, key), wait(t, rival, key)
		trusted = watch(first)
	}
	for _, p := range proxies {
		cut(p)
	}
	clock := testenv.NewStopwatch(t)
	g := granted(t, next, 3*soon)
	took := clock.Elapsed()
	trusted.lost(t, soon)
	for _, p := range proxies {
		p.Heal()
	}
	overlap := trusted.last.Sub(g.at)
	if overlap > 0 || g.lease.Fence() <= first.Fence() {
		t.Errorf("two holders for %v, fence %d after %d", overlap, g.lease.Fence(), first.Fence())
	}
	if took > ttl+2*time.Second {
		t.Errorf("the rival was granted after %v", took)
	}
	release(t, g.lease)
	return overlap
}
