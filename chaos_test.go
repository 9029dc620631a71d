package distlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestLease_Downgrade_history lets readers and writers contend over slow links. Every other writer
// becomes a reader. The checker verifies that no writer holds at the same time as another writer or
// a reader, from the grant to the end of each hold, with the weight that the claim has at the time.
func TestLease_Downgrade_history(t *testing.T) {
	grants, lowered := 0, 0
	for seed := range uint64(few(100)) {
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

// TestSemaphore_chaos lets processes with bad links contend for slots of any weight. Both checkers
// know weights: at no moment do the trusted leases have more slots than the semaphore.
func TestSemaphore_chaos(t *testing.T) {
	histories := uint64(few(*seeds)) / 2
	var sum totals
	for seed := *firstSeed; seed < *firstSeed+histories; seed++ {
		size := int64(1 + seed%5)
		v, err := bubble(t, seed, size)
		if err != nil {
			t.Fatalf("seed %d, %d slots: %v", seed, size, err)
		}
		sum.add(v)
	}
	t.Logf("%d histories: %d grants, %d contended waits, %d faults over a hold, %d losses, %d unknown outcomes, over the limit in none",
		sum.bubbles, sum.grants, sum.waits, sum.faults, sum.losses, sum.unknown)
	if histories >= 200 && (sum.losses == 0 || sum.unknown == 0 || sum.clean == 0) {
		t.Error("nothing was lost, unknown or clean: the faults have no effect")
	}
}

// A world is a store, some Lockers, and tasks that acquire some of its locks, each under the one
// before.
type world struct {
	t       *testing.T
	g       *gate
	rng     *rand.Rand
	lockers []*distlock.Locker
	slots   []*distlock.Semaphore // one for each Locker

	mu        sync.Mutex
	steps     map[string]int // the number of locks that each task got
	deadlocks int
	notices   int
}

const worldSize = 2 // slots of each semaphore

func newWorld(t *testing.T, g *gate, seed uint64) *world {
	t.Helper()
	w := &world{t: t, g: g, rng: rand.New(rand.NewPCG(seed, 7)), steps: map[string]int{}}
	for range 3 {
		l := g.locker(t)
		s, err := l.Semaphore(worldSize)
		if err != nil {
			t.Fatal(err)
		}
		w.lockers, w.slots = append(w.lockers, l), append(w.slots, s)
	}
	g.set(func(g *gate) {
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if strings.HasPrefix(r.Key, "~wait/") {
				w.mu.Lock()
				w.notices++
				w.mu.Unlock()
			}
			return next(ctx, r)
		}
	})
	return w
}

// A wish is one lock of a task.
type wish struct {
	key   int
	take  takeFunc
	opts  []distlock.Option
	think time.Duration // before the next lock
}

// wishes returns locks on keys, by one Locker, in random modes.
func (w *world) wishes(keys []int) (out []wish) {
	at := w.rng.IntN(len(w.lockers))
	l, s := w.lockers[at], w.slots[at]
	for _, key := range keys {
		one := wish{key: key, take: l.Lock, think: time.Duration(w.rng.Int64N(int64(4 * time.Second)))}
		switch kind := key % 3; {
		case kind == 1 && w.rng.IntN(2) == 0:
			one.take = l.RLock
		case kind == 2:
			one.take, one.opts = s.Acquire, []distlock.Option{distlock.Weight(1 + w.rng.Int64N(worldSize))}
		}
		out = append(out, one)
	}
	return out
}

// play acquires all locks, each under the one before, pauses under each, and releases them.
func (w *world) play(ctx context.Context, me string, wishes []wish) error {
	if len(wishes) == 0 {
		return nil
	}
	first := wishes[0]
	lease, err := first.take(ctx, fmt.Sprint("k", first.key), append(first.opts, distlock.Holder(me))...)
	if err != nil {
		w.check(me, err)
		return err
	}
	w.mu.Lock()
	w.steps[me]++
	w.mu.Unlock()
	time.Sleep(first.think)
	return errors.Join(w.play(lease.Context(ctx), me, wishes[1:]), lease.Unlock(ctx))
}

// check checks a reported deadlock: no task of the cycle may get its lock before the victim has
// released its own, however long that takes. Excepted are a cycle of which another task gets an
// error too, and a task that waited behind the victim in the same queue.
func (w *world) check(me string, err error) {
	var deadlock *distlock.DeadlockError
	if !errors.As(err, &deadlock) {
		return
	}
	w.mu.Lock()
	w.deadlocks++
	deadlocks, before := w.deadlocks, map[string]int{}
	for i, p := range deadlock.Cycle {
		before[p.Holder] = w.steps[p.Holder]
		if i > 0 && p.Waits.Name == deadlock.Name {
			deadlocks = -1
		}
	}
	w.mu.Unlock()
	time.Sleep(10 * time.Second) // longer than any pause of the others
	w.mu.Lock()
	defer w.mu.Unlock()
	for holder, steps := range before {
		if w.steps[holder] != steps && w.deadlocks == deadlocks {
			w.t.Errorf("%s got a deadlock error, but %s got its lock: %v", me, holder, err)
		}
	}
}

// run plays all tasks and waits for them.
func (w *world) run(tasks [][]wish) (deadlocks int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for i, wishes := range tasks {
		begins := time.Duration(w.rng.Int64N(int64(3 * time.Second)))
		wg.Go(func() {
			time.Sleep(begins)
			if err := w.play(ctx, fmt.Sprint("p", i), wishes); err != nil && !errors.Is(err, distlock.ErrDeadlock) {
				w.t.Errorf("p%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	w.g.empty(w.t, w.lockers...)
	return w.deadlocks
}

// keys returns two or three keys of six, in random order.
func (w *world) keys() []int { return w.rng.Perm(6)[:2+w.rng.IntN(2)] }

// Tasks that acquire locks of all kinds in the same order never wait in a cycle, however long they
// wait.
func TestDeadlock_noFalseAlarm(t *testing.T) {
	notices, runs := 0, few(*seeds*5/2)
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			var tasks [][]wish
			for range 6 {
				keys := w.keys()
				slices.Sort(keys)
				tasks = append(tasks, w.wishes(keys))
			}
			if n := w.run(tasks); n > 0 {
				t.Errorf("%d false alarms", n)
			}
			notices += w.notices
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d notices", notices); notices < runs {
		t.Errorf("only %d notices: hardly any task waited", notices)
	}
}

// A cycle through a semaphore is no deadlock while a task that can continue holds a slot.
func TestDeadlock_noFalseAlarm_semaphore(t *testing.T) {
	notices, runs := 0, few(*seeds*5/2)
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			n := 2 + w.rng.Int64N(3)
			sem := func() *distlock.Semaphore {
				s, err := w.lockers[w.rng.IntN(len(w.lockers))].Semaphore(n)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			outside := must(t)(sem().Acquire(t.Context(), "s"))
			var steps []step
			for range n - 1 { // they hold the other slots, and want the lock of the last task
				l := w.lockers[w.rng.IntN(len(w.lockers))]
				steps = append(steps, step{lock(sem().Acquire, "s"), lock(l.Lock, "x")})
			}
			last := w.lockers[w.rng.IntN(len(w.lockers))]
			steps = append(steps, step{lock(last.Lock, "x"), lock(sem().Acquire, "s")})
			w.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			k := tie(t, steps, func() time.Duration { return time.Duration(w.rng.Int64N(int64(time.Second))) })
			time.Sleep(time.Duration(w.rng.Int64N(int64(10 * time.Second))))
			free(t, outside)
			k.settle(t)
			g.empty(t, w.lockers...)
			notices += w.notices
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d notices", notices); notices < runs {
		t.Errorf("only %d notices: hardly any task waited", notices)
	}
}

// Tasks that acquire locks of all kinds in random order wait in cycles of all kinds. Each reported
// deadlock is a true one, and all tasks end.
func TestDeadlock_chaos(t *testing.T) {
	deadlocks, runs := 0, few(*seeds*3/4)
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			var tasks [][]wish
			for range 6 {
				tasks = append(tasks, w.wishes(w.keys()))
			}
			deadlocks += w.run(tasks)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d deadlocks", deadlocks); deadlocks < runs/3 {
		t.Errorf("only %d deadlocks: hardly any task waited in a cycle", deadlocks)
	}
}
