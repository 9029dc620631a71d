package pgadvisory

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// A state is what is the case with a claim.
type state int

const (
	asked   state = iota // the server has not answered yet
	waiting              // in the server's line
	ready                // granted from the line, and its owner has not asked for it yet
	held
	leaving // it is given back
	ended
)

// A claim is a lock that the store holds, or is about to. It is guarded by the store's lock.
type claim struct {
	driver.ID
	number        int64
	link          *link // nil: there is none yet
	weight        int64
	fence         uint64
	holder, party string
	ttl           time.Duration // that the link counts with

	state   state
	doubted bool          // nobody knows whether the server holds it
	since   time.Duration // when it was granted; of one that waits or is ready: a time before which the server did not grant it
	ends    time.Duration // when its TTL is over
	timer   *time.Timer   // until ends; of one that is ready, until it is given back

	busy *attempt // what is under way with it; nothing else is begun meanwhile
}

// An attempt is something under way with a claim.
type attempt struct {
	done chan struct{} // closed when the rest is set
	ok   bool
	err  error
}

func newAttempt() *attempt { return &attempt{done: make(chan struct{})} }

// What follows is called with the store's lock held.

// begin notes that something is under way with the claim.
func (c *claim) begin() *attempt {
	c.busy = newAttempt()
	return c.busy
}

// finish notes how it went.
func (c *claim) finish(ok bool, err error) {
	if a := c.busy; a != nil {
		a.ok, a.err = ok, err
		c.busy = nil
		close(a.done)
	}
}

// exclusive reports whether the claim leaves room for nobody.
func (c *claim) exclusive() bool { return c.weight == driver.Whole }

// add notes a claim, on a link if it has one.
func (s *Store) add(c *claim) {
	s.claims[c.ID] = c
	s.list(c)
}

// list has those who ask for the number see the claim.
func (s *Store) list(c *claim) {
	if s.byKey[c.number] == nil {
		s.byKey[c.number] = map[*claim]bool{}
	}
	s.byKey[c.number][c] = true
}

// unlist hides the claim from them, and from its owner.
func (s *Store) unlist(c *claim) {
	if s.claims[c.ID] == c {
		delete(s.claims, c.ID)
	}
	delete(s.byKey[c.number], c)
	if len(s.byKey[c.number]) == 0 {
		delete(s.byKey, c.number)
	}
}

func (s *Store) place(c *claim, l *link) {
	c.link = l
	l.holds[c.number]++
	l.claims[c] = true
}

// remove forgets a claim that has ended. The link's account of TTLs is not touched.
func (s *Store) remove(c *claim) {
	if c.state == ended {
		return
	}
	told := c.state == held || c.state == leaving
	c.state = ended
	if c.timer != nil {
		c.timer.Stop()
	}
	s.unlist(c)
	if l := c.link; l != nil {
		delete(l.claims, c)
		countDown(l.holds, c.number)
		if c.doubted {
			countDown(l.doubts, c.number)
		}
		s.settle(l, c.number)
	}
	if told {
		s.watches.tellKey(c.number)
	}
}

// countDown counts one less, and forgets what is none.
func countDown(counts map[int64]int, number int64) {
	if counts[number]--; counts[number] <= 0 {
		delete(counts, number)
	}
}

// hold makes a claim one that is held, for a TTL from now.
func (s *Store) hold(c *claim, ttl time.Duration) {
	now := s.clock.Now()
	if c.state != held {
		c.since = now
	}
	c.state, c.ends = held, now+ttl
	s.arm(c, ttl, s.expire)
}

// arm sets the claim's timer.
func (s *Store) arm(c *claim, d time.Duration, f func(*claim)) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(d, func() { f(c) })
}

// used is the sum of the weights that this process holds.
func (s *Store) used(number int64) (sum int64) {
	for c := range s.byKey[number] {
		if c.state == held {
			sum += c.weight
		}
	}
	return sum
}

// shown is a claim as it is told.
func (s *Store) shown(c *claim) driver.Claim {
	now := s.clock.Now()
	return driver.Claim{
		Key: c.Key, Owner: driver.Tag(c.Owner), Weight: c.weight, Limit: driver.Whole, Fence: c.fence,
		Holder: c.holder, Task: c.party, Held: now - c.since, Left: max(c.ends-now, 1),
	}
}
