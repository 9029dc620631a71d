package history

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// A bug is one defect of a simulated lock, its client or its resource.
type bug string

const (
	none              bug = ""
	releaseByKey      bug = "release without owner check"
	fenceRepeats      bug = "one fence in ten is given again"
	fenceReset        bug = "a release resets the fences"
	renewIgnored      bug = "trust is extended though the claim is gone"
	trustFromReply    bug = "trust is counted from the reply"
	reportedLate      bug = "a loss is reported late"
	notReported       bug = "a loss is not reported"
	saysHeld          bug = "a lease reports that it is held after its trust"
	oneTooMany        bug = "n+1 slots"
	writerWithReader  bug = "a writer together with a reader"
	lateWrite         bug = "the register accepts a lower fence"
	readUnguarded     bug = "the register's reads raise no fence"
	stuckWaiter       bug = "a waiter never retries"
	slowWaiter        bug = "a waiter retries after a minute"
	theft             bug = "a claim ends early"
	untyped           bug = "an error without a type"
	doubleGrant       bug = "a held lock is granted now and then"
	downgradeUnlocked bug = "lowering a weight frees it all"
)

const (
	simTTL    = 300 * time.Millisecond
	simMargin = 30 * time.Millisecond
)

// A sim is a lock with expiry, and clients that reach it over a slow link.
type sim struct {
	bug   bug
	kind  string // mutex, rw, slots
	rec   *Recorder
	reg   Register
	plain Register

	mu     sync.Mutex
	rng    *rand.Rand
	claims map[string]*simClaim
	last   uint64
	owners int
}

type simClaim struct {
	weight int64
	fence  uint64
	ends   time.Time
}

// simulate runs clients for a number of rounds in a bubble and returns their history.
func simulate(t *testing.T, seed uint64, kind string, b bug, clients, rounds int) *History {
	t.Helper()
	var out *History
	synctest.Test(t, func(t *testing.T) {
		s := &sim{
			bug: b, kind: kind, rec: New(), reg: Register{Name: "r"}, plain: Register{Name: "p", Plain: true},
			rng: rand.New(rand.NewPCG(seed, 1)), claims: map[string]*simClaim{},
		}
		if b == lateWrite {
			s.reg.Plain = true
		}
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				time.Sleep(time.Duration(c)) // no two in one instant, so that a seed is one history
				for range rounds {
					s.round(fmt.Sprintf("c%d", c))
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * simTTL) // so that every trust has ended within the history
		out = s.rec.History()
	})
	return out
}

func (s *sim) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64() < p
}

func (s *sim) random(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d)))
}

// travel is one way over the link: mostly quick, sometimes longer than the margin.
func (s *sim) travel() {
	d := s.random(2 * time.Millisecond)
	if s.chance(0.1) || s.bug == trustFromReply && s.chance(0.5) {
		d = s.random(4 * simMargin)
	}
	time.Sleep(d)
}

func (s *sim) want() (weight, limit int64) {
	switch {
	case s.kind == "slots":
		return 1 + int64(s.random(2)), 3
	case s.kind == "rw" && s.chance(0.7):
		return 1, driver.Whole
	default:
		return driver.Whole, driver.Whole
	}
}

// acquire is the store's side.
func (s *sim) acquire(owner string, weight, limit int64) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var used int64
	for o, c := range s.claims {
		if !c.ends.After(now) {
			delete(s.claims, o)
			continue
		}
		if s.bug == writerWithReader && c.weight == 1 {
			continue
		}
		used += c.weight
	}
	if c := s.claims[owner]; c != nil {
		c.ends = now.Add(simTTL)
		return c.fence, true
	}
	if s.bug == oneTooMany {
		limit++
	}
	if used+weight > limit && !(s.bug == doubleGrant && s.rng.Float64() < 0.05) {
		return 0, false
	}
	if !(s.bug == fenceRepeats && s.rng.Float64() < 0.1 && s.last > 0) {
		s.last++
	}
	ttl := simTTL
	if s.bug == theft && s.rng.Float64() < 0.2 {
		ttl /= 10
	}
	s.claims[owner] = &simClaim{weight, s.last, now.Add(ttl)}
	return s.last, true
}

func (s *sim) release(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bug == releaseByKey {
		clear(s.claims)
		return nil
	}
	c := s.claims[owner]
	delete(s.claims, owner)
	if s.bug == fenceReset {
		s.last = 0
	}
	if c == nil || !c.ends.After(time.Now()) {
		return driver.ErrNotHeld
	}
	return nil
}

func (s *sim) renew(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[owner]
	if c == nil || !c.ends.After(time.Now()) {
		return driver.ErrNotHeld
	}
	c.ends = time.Now().Add(simTTL)
	return nil
}

func (s *sim) lower(owner string) error {
	if err := s.renew(owner); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[owner].weight = 1
	if s.bug == downgradeUnlocked {
		s.claims[owner].weight = 0
	}
	return nil
}

// round is one tenure of a client.
func (s *sim) round(client string) {
	time.Sleep(s.random(20 * time.Millisecond))
	s.mu.Lock()
	s.owners++
	owner := fmt.Sprint(s.owners)
	s.mu.Unlock()
	weight, limit := s.want()
	h := s.rec.Acquire(Want{Client: client, Key: "k", Weight: weight, Limit: limit, TTL: simTTL})
	until, ok := s.lock(h, owner, weight, limit)
	if !ok {
		return
	}
	s.hold(h, client, owner, weight, until)
}

// lock retries until the claim is granted, or gives up.
func (s *sim) lock(h *Hold, owner string, weight, limit int64) (until time.Time, ok bool) {
	patience := time.Now().Add(10 * time.Second)
	for {
		began := time.Now()
		s.travel()
		fence, granted := s.acquire(owner, weight, limit)
		s.travel()
		if granted && s.chance(0.02) { // the reply was lost
			if s.chance(0.5) {
				h.Ended(Unknown)
				c := h.Release()
				s.release(owner)
				c.End(Unknown)
				return until, false
			}
			continue // retry as the same owner
		}
		until = began.Add(simTTL - simMargin)
		if s.bug == trustFromReply {
			until = time.Now().Add(simTTL - simMargin)
		}
		switch {
		case granted && until.After(time.Now()):
			h.Granted(fence, until)
			return until, true
		case granted:
			continue // no trust in the grant is left
		case s.bug == untyped && s.chance(0.05):
			h.Ended(Untyped)
			return until, false
		case time.Now().After(patience):
			h.Ended(Refused)
			s.release(owner)
			return until, false
		}
		h.Waiting()
		switch {
		case s.bug == stuckWaiter && s.chance(0.2):
			time.Sleep(time.Hour)
		case s.bug == slowWaiter:
			time.Sleep(time.Minute)
		}
		time.Sleep(5*time.Millisecond + s.random(5*time.Millisecond))
	}
}

// hold works, renews, and ends in one of several ways.
func (s *sim) hold(h *Hold, client, owner string, weight int64, until time.Time) {
	loss := time.AfterFunc(s.due(until), func() { s.lose(h) })
	defer loss.Stop()
	if weight == driver.Whole {
		s.write(h)
	}
	for s.chance(0.5) && s.sleep(until, simTTL/3) {
		c, began := h.Renew(), time.Now()
		s.travel()
		err := s.renew(owner)
		s.travel()
		if err == nil && time.Now().Before(until) {
			until = began.Add(simTTL - simMargin)
			c.Extended(until)
			loss.Reset(s.due(until))
		} else {
			c.End(Answer(err))
		}
	}
	if s.kind == "rw" && weight > 1 && s.chance(0.3) && time.Now().Before(until) {
		c := h.Lower(1)
		s.travel()
		err := s.lower(owner)
		s.travel()
		c.End(Answer(err))
	}
	if weight == driver.Whole && s.sleep(until, s.random(10*time.Millisecond)) {
		s.write(h)
	}
	way := s.random(10)
	if s.bug == trustFromReply {
		way = 1
	}
	switch way {
	case 0: // the process dies
		loss.Stop()
		h.Gone()
		return
	case 1: // the work takes too long
		time.Sleep(simTTL)
	case 2: // the process is paused for too long
		if loss.Stop() {
			s.pause(h, client)
			if s.bug == renewIgnored {
				h.Renew().Extended(time.Now().Add(simTTL / 2))
				time.Sleep(simTTL / 2)
			}
		}
	}
	s.unlock(h, owner, until)
	loss.Stop()
}

// pause stops a client for longer than its trust lasts.
func (s *sim) pause(h *Hold, client string) {
	from := time.Now()
	time.Sleep(2 * simTTL)
	s.rec.Fault(client, Pause, from, time.Now())
	if s.bug != renewIgnored {
		s.lose(h)
	}
	if h.op.Weight == driver.Whole {
		s.write(h) // the client does not know yet that it lost the lease
	}
}

func (s *sim) unlock(h *Hold, owner string, until time.Time) {
	if !time.Now().Before(until) && s.chance(0.5) {
		return // the loss was reported
	}
	c := h.Release()
	s.travel()
	err := s.release(owner)
	s.travel()
	if s.chance(0.02) {
		c.End(Unknown)
		return
	}
	c.End(Answer(err))
}

// sleep works for d, if trust lasts that long, and reports whether it does.
func (s *sim) sleep(until time.Time, d time.Duration) bool {
	if time.Until(until) <= d {
		return false
	}
	time.Sleep(d)
	return true
}

// due returns the time from now until a loss at the end of trust is reported.
func (s *sim) due(until time.Time) time.Duration {
	d := time.Until(until)
	if s.bug == reportedLate {
		d += time.Millisecond
	}
	return d
}

func (s *sim) lose(h *Hold) {
	if s.bug == saysHeld {
		time.Sleep(time.Millisecond)
		h.Trusted()
	}
	if s.bug != notReported {
		h.Lost()
	}
}

// write increments the registers, with a pause in between that trust may not outlive.
func (s *sim) write(h *Hold) {
	pause := func() { time.Sleep(s.random(2 * time.Millisecond)) }
	h.Update(&s.plain, pause)
	switch s.bug {
	case lateWrite, readUnguarded:
		s.badWrite(h, pause)
	default:
		h.Update(&s.reg, pause)
	}
}

// badWrite records a write to a broken register as a write to a correct one.
func (s *sim) badWrite(h *Hold, pause func()) {
	s.reg.mu.Lock()
	saw := s.reg.value
	s.reg.mu.Unlock()
	pause()
	if s.chance(0.2) {
		time.Sleep(2 * simTTL)
	}
	c := h.Write("r", h.op.Fence, saw, saw+1)
	if s.reg.write(h.op.Fence, saw+1) {
		c.End(Done)
	} else {
		c.End(Refused)
	}
}
