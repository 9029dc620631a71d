package distlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	"github.com/distlock/distlock/store/mem"
)

var (
	seeds     = flag.Int("seeds", 100, "how many bubbles TestChaos runs; the other chaos tests run a share of it")
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestChaos")
)

// The least that a bubble must contain, or its verdict does not count; bubbleMost bounds the
// clients.
const (
	bubbleClients = 5
	bubbleMost    = 8
	bubbleGrants  = 50
)

// TestChaos lets processes with bad links contend for a few keys, each seed in its own bubble. Two
// checkers verify the history.
func TestChaos(t *testing.T) {
	workers := 2
	if *seeds < workers {
		workers = *seeds
	}
	var sum totals
	var next atomic.Uint64
	next.Store(*firstSeed)
	end := *firstSeed + uint64(*seeds)
	t.Run("seeds", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint("worker ", w), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					seed := next.Add(1) - 1
					if seed >= end {
						return
					}
					v, err := bubble(t, seed, 0)
					if err != nil {
						sum.fail()
						t.Errorf("seed %d (go test -run TestChaos -seed %d -seeds 1): %v", seed, seed, err)
						return
					}
					sum.add(v)
				}
			})
		}
	})
	t.Logf("%d bubbles of at least %d clients: %d grants, %d handed off, %d pushed, %d contended waits, %d faults over a hold, "+
		"%d losses, %d unknown outcomes, %d with nothing left at Close, %d violations",
		sum.bubbles, bubbleClients, sum.grants, sum.handed, sum.pushed, sum.waits, sum.faults, sum.losses, sum.unknown, sum.clean, sum.violations)
	if !t.Failed() && *seeds >= 400 && (sum.losses == 0 || sum.handed == 0 || sum.pushed == 0 || sum.unknown == 0 || sum.clean == 0) {
		t.Error("nothing was lost, handed off, pushed, unknown or clean: the faults or the check for leftovers have no effect")
	}
}

type totals struct {
	mu                                                                                 sync.Mutex
	bubbles, grants, handed, pushed, waits, faults, losses, unknown, clean, violations int
}

func (s *totals) add(v *bubbleVerdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bubbles++
	s.grants += v.Grants
	s.waits += v.Waits
	s.faults += v.FaultsOverHold
	s.unknown += v.Unknown
	s.losses += int(v.losses)
	s.handed += int(v.handed)
	s.pushed += int(v.pushed)
	if v.clean {
		s.clean++
	}
}

func (s *totals) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations++
}

type bubbleVerdict struct {
	*history.Verdict
	losses, handed, pushed int64
	clean                  bool
}

// bubble runs one seed and verifies its history. It runs with semaphores of this many slots or, if
// slots is 0, with locks.
func bubble(t *testing.T, seed uint64, slots int64) (*bubbleVerdict, error) {
	var r *run
	synctest.Test(t, func(t *testing.T) {
		r = newRun(t, seed)
		r.slots = slots
		r.play(t)
	})
	if t.Failed() {
		return nil, errors.New("the run itself failed")
	}
	rules := history.Rules{
		// All others may hold for two TTLs each before a waiter is granted, and a last fault may
		// cost a TTL, the time of a queue entry and a poll.
		Stuck: 2*bubbleMost*r.ttl + r.ttl + 5*time.Second,
		// A late request may create a claim without an owner, which blocks for a TTL. The queue
		// entry of a waiter that left blocks for 3 s. A lost notification costs a poll.
		HandOver: r.ttl + 5*time.Second,
		Takeover: r.ttl + 6*time.Second,
		Heal:     r.ttl + 6*time.Second,
		Min:      history.Minimums{Grants: bubbleGrants, ContendedWaits: 1, FaultsOverHold: 1},
	}
	dir := filepath.Join(os.TempDir(), "distlock-chaos") // kept, so that people can look at a failed run
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	v, err := history.Verify(r.rec.History(), rules, history.Search{Timeout: time.Minute, Dir: dir, Name: fmt.Sprint("seed-", seed)})
	return &bubbleVerdict{v, r.load.Losses.Load(), r.handed.Load(), r.pushed.Load(), r.clean}, err
}

// A run is one bubble: a store, links to it, a locker at each link, clients at each locker.
type run struct {
	rng     *rand.Rand
	ttl     time.Duration
	rec     *history.Recorder
	load    *workload.Load
	store   driver.Store
	links   []*chaos.Store
	lockers []*distlock.Locker
	slots   int64 // the size of the semaphores; 0: the clients contend for locks

	holding []atomic.Int64 // by link: the number of leases that its clients hold
	handed  atomic.Int64
	pushed  atomic.Int64 // grants that a notification brought

	tame       bool         // every request is answered, sooner or later
	unanswered atomic.Int64 // releases that failed: the claim may be left
	clean      bool         // nothing was left at the moment of Close
}

func newRun(t *testing.T, seed uint64) *run {
	r := &run{rng: rand.New(rand.NewPCG(seed, 7)), rec: history.New(), store: mem.New()}
	if seed%2 == 1 {
		r.store = chaos.HandOff(mem.New())
	}
	r.ttl = time.Duration(500+r.rng.IntN(4500)) * time.Millisecond
	keys := 1 + r.rng.IntN(2)
	r.load = &workload.Load{
		Recorder: r.rec, TTL: r.ttl, Key: func(rng *rand.Rand) string { return fmt.Sprint("key-", rng.IntN(keys)) },
		Pause: 20 * time.Millisecond, Work: 30 * time.Millisecond, Long: 10,
		Wait: time.Hour, // longer than any bubble should last
	}
	chance := func(most float64) float64 { return r.rng.Float64() * most }
	r.tame = seed%4 == 0
	lossy := func(most float64) float64 {
		if r.tame {
			return 0
		}
		return chance(most)
	}
	for i := range 2 + r.rng.IntN(2) {
		name := fmt.Sprint("link-", i)
		latency := time.Duration(r.rng.IntN(10)) * time.Millisecond
		if r.tame {
			latency = 0 // a cancelled request that is still under way would arrive after its release
		}
		link := chaos.New(r.store, &chaos.Options{
			Name: name,
			Plan: chaos.Plan{
				Seed: seed,
				Chance: map[chaos.Kind]float64{
					chaos.RequestLost: lossy(.03), chaos.ReplyLost: lossy(.03), chaos.RequestLate: lossy(.03),
					chaos.ReplyLate: lossy(.03), chaos.Repeated: lossy(.03), chaos.Frozen: lossy(.01),
					chaos.Unavailable: chance(.03), chaos.WakeLost: chance(.2), chaos.WakeFalse: chance(.2),
				},
				Delay: r.ttl, Latency: latency, Calm: 30 * time.Second,
			},
			Timeout: r.ttl / 2,
			Observe: func(f chaos.Fault) { r.rec.Fault(f.Client, f.Kind.String(), f.From, f.To) },
		})
		l, err := distlock.New(link, distlock.TTL(r.ttl), distlock.Holder(name), distlock.Observe(r.observe))
		if err != nil {
			t.Fatal(err)
		}
		r.links, r.lockers = append(r.links, link), append(r.lockers, l)
	}
	r.holding = make([]atomic.Int64, len(r.links))
	return r
}

// play lets the clients contend until there were enough grants. Meanwhile it freezes a link whose
// client holds a lease. At the end it checks that nothing is left behind.
func (r *run) play(t *testing.T) {
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range bubbleClients + r.rng.IntN(bubbleMost-bubbleClients+1) {
		link := i % len(r.links)
		c := &workload.Client{
			Load: r.load, Name: fmt.Sprint("link-", link), Locker: r.lockers[link], Holding: &r.holding[link],
			Rand: rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i))),
		}
		if r.slots > 0 {
			c.Slots = slots(t, c.Locker, r.slots)
		}
		wg.Go(func() { c.Run(ctx) })
	}
	victim := r.rng.IntN(len(r.links))
	for {
		if r.load.Grants.Load() >= 10 && r.holding[victim].Load() > 0 {
			r.links[victim].Freeze()
			if r.holding[victim].Load() > 0 { // it still holds now that the link is frozen
				break
			}
			r.links[victim].Thaw()
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Duration(r.rng.Int64N(int64(3 * r.ttl))))
	r.links[victim].Thaw()
	for r.load.Grants.Load() < bubbleGrants {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	wg.Wait()
	for i, l := range r.lockers {
		_ = l.Close(context.Background()) // on a bad link it may fail
		r.links[i].Close()
	}
	if r.tame && r.unanswered.Load() == 0 && r.load.Losses.Load() == 0 {
		r.clean = true
		r.leftovers(t, "at Close")
	}
	time.Sleep(2*r.ttl + 11*time.Minute) // claims that could not be released expire
	r.leftovers(t, "in the end")
}

// observe counts hand-offs, pushed grants and failed releases.
func (r *run) observe(_ context.Context, e distlock.Event) {
	switch {
	case e.Type == distlock.EventGranted && e.Handed:
		r.handed.Add(1)
	case e.Type == distlock.EventGranted && e.Waited && e.Left < r.ttl*4/5:
		r.pushed.Add(1) // trusted until the queue entry expires, not for a TTL
	case e.Err != nil && (e.Type == distlock.EventReleased || e.Type == distlock.EventWithdrawn):
		r.unanswered.Add(1)
	}
}

// leftovers fails for every claim and queue entry in the store.
func (r *run) leftovers(t *testing.T, when string) {
	for c, err := range driver.List(context.Background(), r.store, "") {
		t.Errorf("left behind %s: %v %v", when, c, err)
	}
}
