package quorum_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
	"github.com/distlock/distlock/store/quorum"
)

var (
	seeds     = flag.Int("seeds", 10, "how many bubbles TestChaos runs")
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestChaos")
)

const (
	chaosGrants  = 50
	chaosClients = 6
)

// TestChaos lets processes contend for a few keys over nodes with bad links. One node at a time is
// cut off, frozen, or forgets everything. Two checkers check the history.
func TestChaos(t *testing.T) {
	var grants, waits, faults, unknown, losses, forgot atomic.Int64
	var next atomic.Uint64
	next.Store(*firstSeed)
	end := *firstSeed + uint64(*seeds)
	t.Run("seeds", func(t *testing.T) {
		for w := range 2 {
			t.Run(fmt.Sprint("worker ", w), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					seed := next.Add(1) - 1
					if seed >= end {
						return
					}
					r, v, err := chaosBubble(t, seed)
					if err != nil {
						t.Errorf("seed %d (go test -run TestChaos ./store/quorum -seed %d -seeds 1): %v", seed, seed, err)
						return
					}
					grants.Add(int64(v.Grants))
					waits.Add(int64(v.Waits))
					faults.Add(int64(v.FaultsOverHold))
					unknown.Add(int64(v.Unknown))
					losses.Add(r.load.Losses.Load())
					forgot.Add(r.forgot.Load())
				}
			})
		}
	})
	t.Logf("%d bubbles: %d grants, %d contended waits, %d faults over a hold, %d losses, %d unknown outcomes, "+
		"%d times a node forgot, 0 violations", *seeds, grants.Load(), waits.Load(), faults.Load(), losses.Load(), unknown.Load(), forgot.Load())
	if !t.Failed() && *seeds >= 200 &&
		(losses.Load() == 0 || unknown.Load() == 0 || forgot.Load() == 0) {
		t.Error("nothing was lost, unknown or forgotten: the faults have no effect")
	}
}

// chaosBubble runs one seed and checks its history.
func chaosBubble(t *testing.T, seed uint64) (*chaosRun, *history.Verdict, error) {
	var r *chaosRun
	synctest.Test(t, func(t *testing.T) {
		r = newChaosRun(t, seed)
		r.play(t)
	})
	if t.Failed() {
		return nil, nil, errors.New("the run itself failed")
	}
	rules := history.Rules{
		// There is no queue: the bound is that no client starves.
		Stuck: 2*chaosClients*r.ttl + 2*time.Minute,
		Min:   history.Minimums{Grants: chaosGrants, ContendedWaits: 1, FaultsOverHold: 1},
	}
	// kept: the files of a failed run help to find the fault
	dir := filepath.Join(os.TempDir(), "distlock-chaos")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if !r.amnesia {
		v, err := history.Verify(r.rec.History(), rules,
			history.Search{Dir: dir, Name: fmt.Sprint("quorum-", seed), Timeout: time.Minute})
		return r, v, err
	}
	// A node that forgets ends a claim that depends on a bare majority. Its holder gets the loss
	// with the next renewal, and no other owner gets the key before that. So the end of the claim
	// is no violation, and all else is.
	v := history.Check(r.rec.History(), rules)
	v.Violations = slices.DeleteFunc(v.Violations,
		func(v history.Violation) bool { return v.Invariant == "I9" })
	delete(v.Count, "I9")
	return r, v, v.Err()
}

// A chaosRun is one bubble: nodes, processes with links to them, clients in each process.
type chaosRun struct {
	rng     *rand.Rand
	ttl     time.Duration
	amnesia bool // nodes forget
	rec     *history.Recorder
	load    *workload.Load
	nodes   []*node
	links   [][]*chaos.Store // by process
	stores  []*quorum.Store
	lockers []*distlock.Locker

	forgot atomic.Int64
}

func newChaosRun(t *testing.T, seed uint64) *chaosRun {
	r := &chaosRun{rng: rand.New(rand.NewPCG(seed, 11))}
	r.amnesia = seed%2 == 0
	r.ttl = time.Duration(1000+r.rng.IntN(4000)) * time.Millisecond
	r.nodes = newNodes(3+2*r.rng.IntN(2), nil)
	for _, n := range r.nodes {
		n.ahead = time.Duration(r.rng.IntN(20)-10) * time.Millisecond
	}
	time.Sleep(3 * time.Minute)
	r.rec = history.New()
	keys := 1 + r.rng.IntN(2)
	r.load = &workload.Load{
		Recorder: r.rec, TTL: r.ttl, Key: func(rng *rand.Rand) string { return fmt.Sprint("key-", rng.IntN(keys)) },
		Pause: 20 * time.Millisecond, Work: 30 * time.Millisecond, Long: 10,
		Wait: time.Hour, // longer than any bubble should last
	}
	for i := range 3 {
		r.process(t, fmt.Sprint("process-", i), seed)
	}
	return r
}

// process links one more process to the nodes. No request arrives twice: a repeated release could
// undo a later grant to the same owner, and the clients of nodes must not repeat requests.
func (r *chaosRun) process(t *testing.T, name string, seed uint64) {
	var links []*chaos.Store
	var stores []driver.Store
	chance := func(most float64) float64 { return r.rng.Float64() * most }
	for i, n := range r.nodes {
		link := chaos.New(n, &chaos.Options{
			Name: fmt.Sprint(name, "-", i),
			Plan: chaos.Plan{
				Seed: seed,
				Chance: map[chaos.Kind]float64{
					chaos.RequestLost: chance(.03), chaos.ReplyLost: chance(.03),
					chaos.RequestLate: chance(.03), chaos.ReplyLate: chance(.03),
					chaos.Frozen: chance(.01), chaos.Unavailable: chance(.03),
					chaos.WakeLost: chance(.2), chaos.WakeFalse: chance(.2),
				},
				Delay: r.ttl, Latency: time.Duration(r.rng.IntN(10)) * time.Millisecond, Calm: 30 * time.Second,
			},
			Timeout: r.ttl / 2,
			Observe: func(f chaos.Fault) { r.rec.Fault(name, f.Kind.String(), f.From, f.To) },
		})
		links, stores = append(links, link), append(stores, link)
	}
	s, err := quorum.New(t.Context(), stores, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := distlock.New(s, distlock.TTL(r.ttl), distlock.Holder(name))
	if err != nil {
		t.Fatal(err)
	}
	r.links, r.stores, r.lockers = append(r.links, links), append(r.stores, s), append(r.lockers, l)
}

// play lets the clients contend until there were enough grants, makes faults meanwhile, and checks
// that nothing is left behind.
func (r *chaosRun) play(t *testing.T) {
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range chaosClients {
		c := &workload.Client{
			Load: r.load, Name: fmt.Sprint("process-", i%len(r.lockers)),
			Locker: r.lockers[i%len(r.lockers)],
			Rand:   rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i))),
		}
		wg.Go(func() { c.Run(ctx) })
	}
	for r.load.Grants.Load() < chaosGrants {
		time.Sleep(time.Duration(r.rng.Int64N(int64(r.ttl))))
		r.trouble()
	}
	stop()
	wg.Wait()
	for i, l := range r.lockers {
		_ = l.Close(context.Background()) // on a bad link it may fail
		for _, link := range r.links[i] {
			link.Close()
		}
		r.stores[i].Close()
	}
	time.Sleep(2*r.ttl + 11*time.Minute) // claims that could not be released expire
	for i, n := range r.nodes {
		for c, err := range driver.List(context.Background(), n, "") {
			t.Errorf("left behind on node %d: %v %v", i, c, err)
		}
	}
	for _, s := range r.stores {
		if n := quorum.Active(s); n > 0 {
			t.Errorf("%d claims have calls under way in a store that is closed", n)
		}
	}
}

// trouble cuts off a process, freezes a node for all, or makes a node forget. One node forgets at a
// time: the next one forgets when the last one counts again.
func (r *chaosRun) trouble() {
	from := time.Now()
	d := time.Duration(r.rng.Int64N(int64(2 * r.ttl)))
	what := r.rng.IntN(2)
	if r.amnesia {
		what = r.rng.IntN(3)
	}
	switch node := r.rng.IntN(len(r.nodes)); what {
	case 0:
		victim := r.rng.IntN(len(r.links))
		for _, l := range r.links[victim] {
			l.Freeze()
		}
		time.Sleep(d)
		for _, l := range r.links[victim] {
			l.Thaw()
		}
		r.rec.Fault(fmt.Sprint("process-", victim), "cut off", from, time.Now())
	case 1:
		for _, links := range r.links {
			links[node].Freeze()
		}
		time.Sleep(d)
		for _, links := range r.links {
			links[node].Thaw()
		}
		r.rec.Fault("", "node frozen", from, time.Now())
	default:
		r.nodes[node].restart()
		r.forgot.Add(1)
		r.rec.Fault("", "node forgot", from, from)
		time.Sleep(time.Minute + r.ttl)
	}
}
