package pgadvisory

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// A state is the state of a claim.
type state int

const (
	requested state = iota // the server has not answered yet
	waiting                // in the server's queue
	ready                  // granted from the queue, before the owner's next attempt
	held
	releasing // being released
	ended
)

// A claim is a lock that the store holds or is about to hold. Store.mu guards it.
type claim struct {
	driver.ID
	number       int64
	link         *link // nil: there is none yet
	weight       int64
	fence        uint64
	holder, task string
	ttl          time.Duration // as counted by the link
	counted      time.Duration // its TTL in link.lives; 0: none; guarded by link.order

	state   state
	doubted bool          // unknown whether the server holds the lock
	since   time.Duration // time of the grant; if waiting or ready: the server granted it no earlier
	ends    time.Duration // end of the TTL; if ready: when it is released, unless its owner takes it
	timer   *time.Timer   // runs until ends

	busy *operation // the operation in progress; no other one starts meanwhile
}

// An operation is an action in progress on a claim.
type operation struct {
	done chan struct{} // closed when the fields below are set
	ok   bool
	err  error
}

func newOperation() *operation { return &operation{done: make(chan struct{})} }

// Store.mu is held in all functions below.

// begin starts an operation on the claim.
func (c *claim) begin() *operation {
	c.busy = newOperation()
	return c.busy
}

// finish ends the operation with its result.
func (c *claim) finish(ok bool, err error) {
	if a := c.busy; a != nil {
		a.ok, a.err = ok, err
		c.busy = nil
		close(a.done)
	}
}

// exclusive reports whether the claim excludes all others.
func (c *claim) exclusive() bool { return c.weight == driver.Whole }

// add adds a claim, on a link if it has one.
func (s *Store) add(c *claim) {
	s.claims[c.ID] = c
	s.list(c)
}

// list makes the claim visible to attempts on its number.
func (s *Store) list(c *claim) {
	if s.byKey[c.number] == nil {
		s.byKey[c.number] = map[*claim]bool{}
	}
	s.byKey[c.number][c] = true
}

// unlist hides the claim from these attempts and from its owner.
func (s *Store) unlist(c *claim) {
	if s.claims[c.ID] == c {
		delete(s.claims, c.ID)
	}
	delete(s.byKey[c.number], c)
	if len(s.byKey[c.number]) == 0 {
		delete(s.byKey, c.number)
	}
}

func (s *Store) assign(c *claim, l *link) {
	c.link = l
	l.holds[c.number]++
	l.claims[c] = true
}

// remove deletes an ended claim. It does not change the TTLs that the link counts.
func (s *Store) remove(c *claim) {
	if c.state == ended {
		return
	}
	wasHeld := c.state == held || c.state == releasing
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
	for wake, number := range s.watchers {
		if wasHeld && number == c.number {
			notify(wake)
		}
	}
}

// countDown decrements a counter, and deletes it at zero.
func countDown[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// hold changes the state of a claim to held, for a TTL from now.
func (s *Store) hold(c *claim, ttl time.Duration) {
	now := s.clock.Now()
	if c.state != held {
		c.since = now
	}
	c.state, c.ends = held, now+ttl
	s.arm(c, ttl)
}

// arm sets the claim's timer.
func (s *Store) arm(c *claim, d time.Duration) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(d, func() { s.expire(c) })
}

// used returns the sum of the weights that this process holds.
func (s *Store) used(number int64) (sum int64) {
	for c := range s.byKey[number] {
		if c.state == held {
			sum += c.weight
		}
	}
	return sum
}

// shown returns the public form of a claim.
func (s *Store) shown(c *claim) driver.Claim {
	now := s.clock.Now()
	return driver.Claim{
		Key: c.Key, Owner: driver.Tag(c.Owner), Weight: c.weight, Limit: driver.Whole, Fence: c.fence,
		Holder: c.holder, Task: c.task, Held: now - c.since, Left: max(c.ends-now, 1),
	}
}
