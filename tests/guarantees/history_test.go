package guarantees_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/testenv"
)

// Five clients on two links compete while the links are slow, break and drop data, and servers stop
// for a while. Two checkers verify the history of their calls.
func TestHistory(t *testing.T) {
	t.Parallel()
	const ttl, lasts = time.Second, 20 * time.Second
	for name, start := range map[string]func(t *testing.T) *site{
		"redis":   sites["redis"],
		"mariadb": sites["mariadb"],
		"redlock": func(t *testing.T) *site { return onNodes(t, 3, ttl) },
		"remote":  sites["remote"],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contend(t, ttl, lasts, start(t))
		})
	}
}

// The same on three members of etcd, whose least TTL is two seconds.
func TestHistory_members(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		contend(t, 2*time.Second, 20*time.Second, sites["etcd"](t))
	})
}

// A badLink is the link of one process.
type badLink struct {
	name string
	links
}

// contend runs the clients and checks their history.
func contend(t *testing.T, ttl, lasts time.Duration, s *site) {
	rng := chance(t)
	began := time.Now()
	// The search for an order is slow for long histories of one key, so the clients change to other
	// keys twice a second.
	d := newLoad(ttl, func(rng *rand.Rand) string {
		return fmt.Sprint("key ", int(time.Since(began)/(500*time.Millisecond)), " ", rng.IntN(2))
	})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var bad [2]badLink
	for i := range bad {
		linked, link := s.through(t)
		bad[i] = badLink{fmt.Sprint("link ", i), link}
		l := locker(t, linked, distlock.TTL(ttl), distlock.Holder(bad[i].name))
		for range 3 - i { // five of them
			c := d.client(bad[i].name, l, rng.Uint64())
			wg.Go(func() { c.Run(ctx) })
		}
	}
	stopStalls := testenv.Stalls(100*time.Millisecond, func(from, to time.Time) {
		for _, c := range []string{"link 0", "link 1"} {
			d.Recorder.Fault(c, history.Pause, from, to)
		}
	})
	faults := map[string]int{}
	// On a busy machine the run continues until it has enough grants for a verdict.
	for time.Since(began) < lasts || d.Grants.Load() < 450 && time.Since(began) < 4*lasts {
		time.Sleep(upTo(rng, 250*time.Millisecond))
		faults[d.disturb(rng, bad[rng.IntN(2)], s.servers())]++
	}
	stop()
	wg.Wait()
	stopStalls()
	// kept, to look at the files of a failed run
	dir := filepath.Join(os.TempDir(), "distlock-guarantees")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	v, err := history.Verify(d.Recorder.History(), history.Rules{
		Tolerance: 500 * time.Millisecond, // the machine may be busy
		Stuck:     10*ttl + soon,
		Min:       history.Minimums{Grants: 300, ContendedWaits: 100, FaultsOverHold: 15},
	}, history.Search{
		Dir: dir, Name: fmt.Sprint(filepath.Base(t.Name()), "-seed-", *seed), Timeout: time.Minute,
	})
	t.Logf("faults %v", faults)
	t.Logf("%d grants, %d contended waits, %d faults during a hold, %d losses, %d unknown", v.Grants,
		v.Waits, v.FaultsOverHold, d.Losses.Load(), v.Unknown)
	if err != nil {
		t.Error(err)
	}
}

// disturb causes one fault, and returns its name when it has ended.
func (d *load) disturb(rng *rand.Rand, k badLink, nodes []*testenv.Server) string {
	at := rng.IntN(len(nodes))
	proxy, lasts, whom := k.links[at], 20*time.Millisecond+upTo(rng, 150*time.Millisecond), k.name
	var name string
	from := time.Now()
	switch rng.IntN(14) { // long faults are less frequent
	case 0, 1:
		name = "latency"
		proxy.Latency(upTo(rng, 40*time.Millisecond))
	case 2, 3:
		name = "reset"
		proxy.Reset()
	case 4, 5:
		name = "replies dropped"
		proxy.Cut(testenv.ToClient)
	case 6, 7:
		name = "requests dropped"
		proxy.Cut(testenv.ToServer)
	case 8, 9:
		name = "delayed"
		proxy.Hold(testenv.Both)
	case 10, 11:
		name = "reply cut"
		proxy.CutAfter(rng.IntN(60))
	case 12:
		name, lasts = "partition", upTo(rng, 3*d.TTL/2)
		k.each(func(p *testenv.ProxyServer) { p.Cut(testenv.Both) })
	default:
		name, whom, lasts = "server stopped", "", upTo(rng, 3*d.TTL/2)
		nodes[at].Pause()
	}
	time.Sleep(lasts)
	if name == "server stopped" {
		nodes[at].Resume()
	}
	k.each(func(p *testenv.ProxyServer) { p.Heal() })
	d.Recorder.Fault(whom, name, from, time.Now())
	return name
}
