package pgadvisory

import (
	"context"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// readyFor is how long a lock that was granted from the line waits for its owner, who was told and is in this process.
	readyFor = time.Second

	// lineGrace is grace for what is granted from the line, until it is first renewed. When the server granted it nobody here knows: the answer
	// may have been on its way for long. But it was after the wait began, and after every look at the line that still saw it
	// wait, and whoever waits looks about once a second. If that is not long ago, the grant needs no proof by another statement.
	lineGrace = 2 * time.Second
)

// watches are those who want to be told. They are guarded by the store's lock.
type watches struct {
	owners map[driver.ID]chan driver.Wake
	keys   map[int64][]chan driver.Wake
}

// Watch returns a channel that is ready when id has been granted in the server's line, in which it stands from its next refusal on. It is nil if
// Options.Waits others do already. Without an owner it is ready when a claim of this process on the key ends; of
// others the server tells nothing.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	wake := make(chan driver.Wake, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watches
	if s.closed {
		return nil
	}
	if id.Owner == "" {
		number := s.number(id.Key)
		if w.keys == nil {
			w.keys = map[int64][]chan driver.Wake{}
		}
		w.keys[number] = append(w.keys[number], wake)
		context.AfterFunc(ctx, func() { s.unwatchKey(number, wake) })
		return wake
	}
	if len(w.owners) >= s.opt.Waits || w.owners[id] != nil {
		return nil
	}
	if w.owners == nil {
		w.owners = map[driver.ID]chan driver.Wake{}
	}
	w.owners[id] = wake
	context.AfterFunc(ctx, func() { s.unwatch(id) })
	return wake
}

func (s *Store) unwatchKey(number int64, wake chan driver.Wake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.watches.keys
	if k[number] = slices.DeleteFunc(k[number], func(c chan driver.Wake) bool { return c == wake }); len(k[number]) == 0 {
		delete(k, number)
	}
}

// unwatch ends the watch of an owner, who leaves the line with it.
func (s *Store) unwatch(id driver.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches.owners, id)
	c := s.claims[id]
	switch {
	case c == nil || s.closed:
	case c.state == waiting:
		s.withdraw(c)
	case c.state == ready && c.busy == nil:
		s.giveBackLater(c)
	}
}

// tellOwner and tellKey wake. They are called with the lock held.

func (w *watches) tellOwner(id driver.ID) {
	if c := w.owners[id]; c != nil {
		poke(c)
	}
}

func (w *watches) tellKey(number int64) {
	for _, c := range w.keys[number] {
		poke(c)
	}
}

func poke(c chan driver.Wake) {
	select {
	case c <- driver.Wake{}:
	default: // it is ready already
	}
}

// enqueue has the server keep an owner in line that was refused and watches. It is called with the lock held.
func (s *Store) enqueue(a *ask) {
	if s.closed || s.watches.owners[a.ID] == nil || s.claims[a.ID] != nil {
		return
	}
	c := &claim{ID: a.ID, number: a.number, weight: a.Weight, holder: a.Holder, party: a.Task, ttl: a.TTL, state: waiting}
	s.add(c)
	s.wg.Go(func() { s.standInLine(c) })
}

// standInLine waits in the server's line, on a connection that does nothing else meanwhile.
func (s *Store) standInLine(c *claim) {
	s.mu.Lock()
	l := s.spare()
	// Those that were granted in line hold on to their connections: there may be none left.
	if l == nil && len(s.links)+s.dialing+s.lining < s.opt.Conns+s.opt.Waits {
		s.lining++
		s.mu.Unlock()
		made, err := s.connect(s.running)
		s.mu.Lock()
		s.lining--
		if err == nil && s.adopt(made) == nil {
			l = made
		}
	}
	if l == nil || c.state != waiting { // its owner asks again from time to time; or it was withdrawn
		s.remove(c)
		c.finish(false, nil)
		s.mu.Unlock()
		return
	}
	l.waits = true
	s.place(c, l)
	c.since = s.clock.Now()
	v := waitShared
	if c.exclusive() {
		v = waitExclusive
	}
	s.mu.Unlock()
	if err := l.do(v, c, c.ttl+lineGrace-grace, func(k *call) { s.served(c, k) }); err != nil {
		return // the connection is over, and the claim with it
	}
	l.listen()
}

// spare returns a connection that holds nothing, if there are more than needed. It is called with the lock held.
func (s *Store) spare() (best *link) {
	taking := 0
	for l := range s.links {
		calls, _, idle := l.load()
		if l.waits {
			continue
		}
		taking++
		if calls == 0 && len(l.claims) == 0 && l.questions == 0 && !l.stale(idle) {
			best = l
		}
	}
	if taking < 2 {
		return nil // those who take locks need one
	}
	return best
}

// served notes that the wait in line is over.
func (s *Store) served(c *claim, k *call) {
	l := c.link
	value, ok, err := l.answer(k)
	s.mu.Lock()
	l.waits = false
	s.change()
	switch {
	case lost(err):
		s.mu.Unlock()
		return
	case err != nil || !ok || c.state != waiting:
		// It was withdrawn, or somebody else cancelled it: the lock may have been granted before.
		if c.busy == nil {
			c.begin()
		}
		now := s.doubt(c, nil)
		s.watches.tellOwner(c.ID)
		s.mu.Unlock()
		if now {
			s.freeUnseen(c, 0, nil)
		}
		return
	}
	c.state, c.fence = ready, uint64(value)
	s.arm(c, readyFor, s.unclaimed)
	if s.clock.Now()-c.since < lineGrace/2 {
		s.watches.tellOwner(c.ID)
		s.mu.Unlock()
		return
	}
	c.since = s.clock.Now()
	c.begin()
	s.mu.Unlock()
	if err := l.do(beat, c, c.ttl+lineGrace-grace, func(k *call) { s.beaten(c, k) }); err != nil {
		return
	}
	l.listen()
	s.mu.Lock()
	s.watches.tellOwner(c.ID)
	s.mu.Unlock()
}

// stillWaits notes that a claim stood in line when the server was asked at the time sent. It is called with the lock held.
func (c *claim) stillWaits(sent time.Duration) {
	if c.state == waiting || c.state == ready {
		c.since = max(c.since, sent)
	}
}

// beaten notes that the server counts the TTL of a claim that is ready from later than c.since.
func (s *Store) beaten(c *claim, k *call) {
	_, _, err := c.link.answer(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case lost(err):
	case err != nil:
		c.link.failed(c, c.ttl)
		s.undo(c, nil)
	default:
		c.finish(true, nil)
	}
}

// unclaimed gives a lock back whose owner did not come for it.
func (s *Store) unclaimed(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.state != ready || s.closed:
	case c.busy != nil:
		s.arm(c, readyFor, s.unclaimed)
	default:
		s.giveBackLater(c)
	}
}

// withdraw takes a claim out of the server's line, and returns what is closed when it is. It is called with the lock held.
func (s *Store) withdraw(c *claim) <-chan struct{} {
	c.state = leaving
	try := c.begin()
	if l := c.link; l != nil {
		s.wg.Go(func() { s.cancelWait(l, try) })
	}
	return try.done
}

// cancelWait ends the wait of a connection. One that cannot be cancelled is broken.
func (s *Store) cancelWait(l *link, try *attempt) {
	timer := time.NewTimer(callLimit / 4)
	defer timer.Stop()
	l.cancel(s.running)
	select {
	case <-try.done:
	case <-timer.C:
		_ = l.conn.Close()
	}
}
