package quorum_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/quorum"
)

// modelGrants is small in the plain test run. CI uses 255, which with -rapid.checks=200 is more
// than 100,000 grants in total.
var modelGrants = flag.Int("grants", 50,
	"how many grants a run of TestFences has, and a tenth of that of TestExclusion")

const week = 7 * 24 * time.Hour

// A model describes one run.
type model struct {
	Nodes   int
	Seed    uint64
	Latency time.Duration
	Clocks  []time.Duration // how far the clock of each node is ahead
	Clients []time.Duration // how far the clock of each client is ahead
	Amnesia bool            // now and then a node forgets everything
	Loss    float64         // how likely a call is lost, late, or unavailable

	TTL, Hold time.Duration // of claims; the longest that one is held
	Tries     int           // how often the same owner tries
	Grants    int           // after how many the run ends
}

// drawModel draws a run. After a loss of memory only the clocks keep the order, so the clocks of
// those runs are less than LongestTTL apart. A client clock that is so wrong that nodes refuse it
// does no harm.
func drawModel(t *rapid.T, nodes int) model {
	m := model{
		Nodes:   nodes,
		Seed:    rapid.Uint64().Draw(t, "seed"),
		Latency: time.Duration(rapid.IntRange(0, 10_000).Draw(t, "latency")) * time.Microsecond,
		Amnesia: rapid.Bool().Draw(t, "amnesia"),
		Loss:    rapid.SampledFrom([]float64{0, 0, .002, .02}).Draw(t, "loss"),
		TTL:     500 * time.Millisecond, Hold: 5 * time.Millisecond, Tries: 3, Grants: *modelGrants,
	}
	near := []time.Duration{0, time.Millisecond, -3 * time.Millisecond, 10 * time.Second,
		-10 * time.Second, week}
	if !m.Amnesia {
		near = append(near, 30*time.Minute, -30*time.Minute, -week)
	}
	clock := rapid.SampledFrom(near)
	m.Clients = rapid.SliceOfN(clock, 2, 5).Draw(t, "clients")
	for range m.Nodes {
		d := rapid.SampledFrom(near[:5]).Draw(t, "clock")
		m.Clocks = append(m.Clocks,
			d+time.Duration(rapid.IntRange(-3000, 3000).Draw(t, "skew"))*time.Microsecond)
	}
	return m
}

// TestFences lets random clients contend for one key over nodes whose clocks, memory and links are
// bad, and checks that the fences follow the order of the grants in real time.
func TestFences(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			var sum score
			rapid.Check(t, func(rt *rapid.T) {
				g := drawModel(rt, nodes).play(t)
				if g.wrong != "" {
					rt.Fatal(g.wrong)
				}
				sum.add(g.score)
			})
			t.Logf("%d runs: %d grants in order (%d shared, %d raised by another Acquire, %d after a refusal), %d crashes (%d between the rounds), "+
				"%d times a node forgot, %d unknown, %d unavailable, %d refused", sum.runs, sum.grants, sum.shared, sum.raised,
				sum.retried, sum.crashes, sum.between, sum.forgot, sum.unknown, sum.unavailable, sum.refused)
			if sum.runs >= 100 && (sum.grants < sum.runs**modelGrants ||
				sum.between == 0 || sum.forgot == 0 || sum.unknown == 0 || sum.shared == 0) {
				t.Error("the runs had too few grants or faults to prove anything")
			}
		})
	}
}

// TestExclusion does the same with few grants that are held for long, by owners that try again and
// again over links that lose and delay many calls: calls of an earlier attempt meet a later one
// that is held.
func TestExclusion(t *testing.T) {
	t.Parallel()
	var sum score
	rapid.Check(t, func(rt *rapid.T) {
		m := drawModel(rt, 3)
		m.Loss = rapid.SampledFrom([]float64{.03, .06}).Draw(rt, "much loss")
		m.TTL, m.Hold, m.Tries, m.Grants = 2*time.Second, 1500*time.Millisecond, 40, *modelGrants/10
		g := m.play(t)
		if g.wrong != "" {
			rt.Fatal(g.wrong)
		}
		sum.add(g.score)
	})
	t.Logf("%d runs: %d grants, %d of them after a refusal, %d unknown, %d refused",
		sum.runs, sum.grants, sum.retried, sum.unknown, sum.refused)
}

// A score counts the events of one or more runs.
type score struct {
	runs, grants, shared, raised, retried, crashes, forgot, unknown, unavailable, refused int

	between int // crashes after a majority had granted the claim, and before one had stored its fence
}

func (s *score) add(o score) {
	s.runs++
	s.grants += o.grants
	s.shared += o.shared
	s.raised += o.raised
	s.retried += o.retried
	s.crashes += o.crashes
	s.between += o.between
	s.forgot += o.forgot
	s.unknown += o.unknown
	s.unavailable += o.unavailable
	s.refused += o.refused
}

// A game is one run.
type game struct {
	model
	nodes []*node
	done  atomic.Bool

	mu sync.Mutex
	score
	wrong   string
	live    map[*grant]bool
	highest uint64 // the highest fence of all grants
	ended   uint64 // the highest fence of the grants that have certainly ended
}

// A grant is a granted claim, as its client sees it.
type grant struct {
	shared bool
	fence  uint64
	until  time.Time // trust ends
}

// play runs one model in a bubble.
func (m model) play(t *testing.T) *game {
	g := &game{model: m, live: map[*grant]bool{}}
	synctest.Test(t, func(t *testing.T) {
		g.nodes = newNodes(m.Nodes, m.Clocks)
		rng := rand.New(rand.NewPCG(m.Seed, 1))
		if rng.IntN(4) > 0 {
			time.Sleep(3 * time.Minute)
		}
		var wg sync.WaitGroup
		for i, ahead := range m.Clients {
			p := &player{
				game: g, name: fmt.Sprint("client", i), ahead: ahead,
				rng: rand.New(rand.NewPCG(m.Seed, uint64(2+i))),
			}
			wg.Go(func() { p.loop(t) })
		}
		if m.Amnesia {
			wg.Go(func() { g.forget(rng) })
		}
		wg.Wait()
	})
	return g
}

// forget makes one random node after the other forget everything.
func (g *game) forget(rng *rand.Rand) {
	for !g.done.Load() {
		time.Sleep(time.Minute + g.TTL + time.Duration(rng.IntN(30_000))*time.Millisecond)
		g.nodes[rng.IntN(len(g.nodes))].restart()
		g.note(func() { g.forgot++ })
	}
}

// note changes the score.
func (g *game) note(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// fail ends the game. The caller holds the lock.
func (g *game) fail(format string, args ...any) {
	if g.wrong == "" {
		g.wrong = fmt.Sprintf(format, args...)
	}
	g.done.Store(true)
}

// granted checks a grant. ended is the highest fence of the claims that had ended before the call.
func (g *game) granted(n *grant, ended uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for o := range g.live {
		if !now.Before(o.until) {
			g.remove(o)
		} else if !o.shared || !n.shared {
			g.fail("fence %d (shared %v) was granted while %d (shared %v) is trusted", n.fence,
				n.shared, o.fence, o.shared)
		}
	}
	least := g.highest
	if n.shared {
		least = ended
	}
	if least > 0 && n.fence < least+driver.Span {
		g.fail("grant %d: fence %d (shared %v) after %d: %d too low",
			g.grants, n.fence, n.shared, least, least+driver.Span-n.fence)
	}
	g.live[n] = true
	g.highest = max(g.highest, n.fence)
	if g.grants++; g.grants >= g.Grants {
		g.done.Store(true)
	}
	if n.shared {
		g.shared++
	}
}

// remove records that a claim has ended. The caller holds the lock.
func (g *game) remove(n *grant) {
	delete(g.live, n)
	g.ended = max(g.ended, n.fence)
}

// A player is one client.
type player struct {
	*game
	name  string
	ahead time.Duration
	rng   *rand.Rand
	links []*chaos.Store
	store *quorum.Store
	lives int
}

func (p *player) loop(t *testing.T) {
	p.start(t)
	defer p.stop()
	for !p.done.Load() {
		p.step(t)
		switch n := p.rng.IntN(1000); {
		case n < 20:
			time.Sleep(time.Duration(p.rng.IntN(20_000)) * time.Millisecond)
		case n < 21:
			time.Sleep(11*time.Minute + time.Duration(p.rng.IntN(600))*time.Second) // nodes sweep idle names
		default:
			time.Sleep(time.Duration(p.rng.Int64N(int64(8*p.Latency + 20*time.Millisecond))))
		}
	}
}

// start begins the life of a process.
func (p *player) start(t *testing.T) {
	p.lives++
	p.links = nil
	var stores []driver.Store
	for i, n := range p.nodes {
		link := chaos.New(n, &chaos.Options{
			Name: fmt.Sprint(p.name, "-", p.lives, "-", i),
			Plan: chaos.Plan{Seed: p.Seed, Latency: p.Latency, Delay: time.Second,
				Chance: map[chaos.Kind]float64{
					chaos.RequestLost: p.Loss, chaos.ReplyLost: p.Loss, chaos.RequestLate: p.Loss, chaos.ReplyLate: p.Loss,
					chaos.Unavailable: p.Loss,
				}},
		})
		p.links = append(p.links, link)
		// For this client, the clocks of all nodes are behind by as much as its own clock is ahead.
		stores = append(stores, shifted{link, -p.ahead})
	}
	s, err := quorum.New(t.Context(), stores, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.store = s
}

func (p *player) stop() {
	for _, l := range p.links {
		l.Close()
	}
	p.store.Close()
}

// step acquires a claim, and holds it for a while if it is granted.
func (p *player) step(t *testing.T) {
	r := exclusive("key", p.TTL)
	if p.rng.IntN(4) == 0 {
		r.Weight = 1
	}
	if p.rng.IntN(100) < 3 {
		p.crash(t, r)
		return
	}
	p.mu.Lock()
	ended := p.ended // a request that was late may have left a part of the claim since the first try
	p.mu.Unlock()
	for try := range p.Tries {
		began := time.Now()
		res, err := p.store.Acquire(t.Context(), r)
		if p.record(res, err); err == nil && res.Granted {
			if try > 0 {
				p.note(func() { p.retried++ })
			}
			p.hold(t, r, p.take(r, res, began, ended))
			return
		}
		// for other clients to finish
		time.Sleep(time.Duration(p.rng.Int64N(int64(8*p.Latency + 20*time.Millisecond))))
	}
	_ = p.store.Release(t.Context(), r.ID)
}

// take records and checks a grant.
func (p *player) take(r driver.Request, res driver.Result, began time.Time, ended uint64) *grant {
	g := &grant{shared: r.Weight == 1, fence: shift(res.Fence, p.ahead), until: began.Add(p.TTL)}
	p.granted(g, ended)
	return g
}

// hold keeps a claim for a while, sometimes acquires it again with a higher Floor, and releases it
// or lets it expire.
func (p *player) hold(t *testing.T, r driver.Request, g *grant) {
	time.Sleep(time.Duration(p.rng.Int64N(int64(p.Hold))))
	if p.rng.IntN(10) == 0 {
		r.Floor = shift(g.fence, -p.ahead) + driver.Span
		res, err := p.store.Acquire(t.Context(), r)
		p.record(res, err)
		p.mu.Lock()
		if err == nil && res.Granted && time.Now().Before(g.until) {
			if f := shift(res.Fence, p.ahead); f < g.fence+driver.Span {
				p.fail("acquired again, fence %d became %d", g.fence, f)
			} else {
				g.fence = f
				p.highest = max(p.highest, f)
				p.raised++
			}
		}
		p.mu.Unlock()
	}
	if p.rng.IntN(100) == 0 {
		return // it expires
	}
	p.note(func() { g.until = time.Now() }) // trust ends before the release
	if p.store.Release(t.Context(), r.ID) == nil {
		p.note(func() { p.remove(g) })
	}
}

// crash starts an Acquire, and dies during it: all links are cut, and the next life knows nothing.
func (p *player) crash(t *testing.T, r driver.Request) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(time.Duration(p.rng.Int64N(int64(4*p.Latency) + 1)))
		for _, l := range p.links {
			l.Cut(chaos.All)
		}
		cancel()
	})
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	began := time.Now()
	if res, err := p.store.Acquire(ctx, r); err == nil && res.Granted {
		g := p.take(r, res, began, ended) // it was granted just before the crash
		p.note(func() { g.until = time.Now() })
	}
	wg.Wait()
	between := p.between(r.ID)
	p.stop()
	p.note(func() {
		p.crashes++
		if between {
			p.score.between++
		}
	})
	p.start(t)
}

// between reports whether a majority of nodes has granted a claim, and no majority has stored the
// highest of its fences: a second round was needed to write it back.
func (p *player) between(id driver.ID) bool {
	var fences []uint64
	for _, n := range p.nodes {
		if c := n.claim(id); c != nil {
			fences = append(fences, c.Fence)
		}
	}
	most := len(p.nodes)/2 + 1
	slices.Sort(fences)
	return len(fences) >= most && fences[len(fences)-most] < fences[len(fences)-1]
}

// record counts the results.
func (p *player) record(res driver.Result, err error) {
	p.note(func() {
		switch {
		case err == nil && !res.Granted:
			p.refused++
		case err == nil:
		case isUnavailable(err):
			p.unavailable++
		default:
			p.unknown++
		}
	})
}
