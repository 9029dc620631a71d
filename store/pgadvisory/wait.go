package pgadvisory

import (
	"context"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
)

const (
	// readyFor is how long a lock granted in the server's queue waits for the next attempt of its
	// owner, which is in this process and was notified.
	readyFor = time.Second

	// queueGrace replaces grace for a lock granted in the server's queue, until its first renewal.
	// The time of the grant is unknown: the answer may have been delayed. But the grant came after
	// the start of the wait, and after every look at the queue that still saw the waiter, and a
	// waiter looks about once a second. If that was recent, the grant needs no proof by another
	// statement.
	queueGrace = 2 * time.Second
)

// watches holds the channels of the watchers. Store.mu guards it.
type watches struct {
	owners map[driver.ID]chan driver.Wake
	keys   map[int64][]chan driver.Wake
}

// Watch returns a channel that is ready when id was granted in the server's queue. id joins the
// queue at its next refusal. Watch returns nil if [Options.Waits] others wait already. Without an
// owner, the channel is ready when a claim of this process on the key ends; the server does not
// report claims of other processes.
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
		w.keys[number] = append(w.keys[number], wake)
		context.AfterFunc(ctx, func() { s.unwatchKey(number, wake) })
		return wake
	}
	if len(w.owners) >= s.opt.Waits || w.owners[id] != nil {
		return nil
	}
	w.owners[id] = wake
	context.AfterFunc(ctx, func() { s.unwatch(id) })
	return wake
}

func (s *Store) unwatchKey(number int64, wake chan driver.Wake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.watches.keys
	k[number] = slices.DeleteFunc(k[number], func(c chan driver.Wake) bool { return c == wake })
	if len(k[number]) == 0 {
		delete(k, number)
	}
}

// unwatch ends the watch of an owner, which then leaves the queue.
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
		s.releaseLater(c)
	}
}

// notifyOwner and notifyKey wake watchers. Store.mu is held.

func (w *watches) notifyOwner(id driver.ID) {
	if c := w.owners[id]; c != nil {
		notify(c)
	}
}

func (w *watches) notifyKey(number int64) {
	for _, c := range w.keys[number] {
		notify(c)
	}
}

func notify(c chan driver.Wake) {
	select {
	case c <- driver.Wake{}:
	default: // already ready
	}
}

// enqueue makes a refused owner that watches wait in the server's queue. s.mu is held.
func (s *Store) enqueue(a *attempt) {
	if s.closed || s.watches.owners[a.ID] == nil || s.claims[a.ID] != nil {
		return
	}
	c := &claim{ID: a.ID, number: a.number, weight: a.Weight, holder: a.Holder, task: a.Task,
		ttl: a.TTL, state: waiting}
	s.add(c)
	s.wg.Go(func() { s.waitInQueue(c) })
}

// waitInQueue waits in the server's queue, on a connection that does nothing else meanwhile.
func (s *Store) waitInQueue(c *claim) {
	s.mu.Lock()
	l := s.surplus()
	// Locks granted in the queue keep their connections: there may be none left.
	if l == nil && len(s.links)+s.dialing+s.connectingWaits < s.opt.Conns+s.opt.Waits {
		s.connectingWaits++
		s.mu.Unlock()
		made, err := s.connect(s.running)
		s.mu.Lock()
		s.connectingWaits--
		if err == nil && s.adopt(made) == nil {
			l = made
		}
	}
	if l == nil || c.state != waiting { // its owner polls, or it was withdrawn
		s.remove(c)
		c.finish(false, nil)
		s.mu.Unlock()
		return
	}
	l.waits = true
	s.assign(c, l)
	c.since = s.clock.Now()
	v := waitShared
	if c.exclusive() {
		v = waitExclusive
	}
	s.mu.Unlock()
	if err := l.do(v, c, c.ttl+queueGrace-grace, func(k *pgwire.Call) { s.waitDone(c, k) }); err != nil {
		return // the connection has ended, and the claim with it
	}
	l.WatchNow()
}

// surplus returns a connection without claims, if there are more than needed. s.mu is held.
func (s *Store) surplus() (best *link) {
	taking := 0
	for l := range s.links {
		calls, _, idle := l.Load()
		if l.waits {
			continue
		}
		taking++
		if calls == 0 && len(l.claims) == 0 && l.questions == 0 && !l.stale(idle) {
			best = l
		}
	}
	if taking < 2 {
		return nil // acquiring locks needs one
	}
	return best
}

// waitDone records the end of the wait in the queue.
func (s *Store) waitDone(c *claim, k *pgwire.Call) {
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
		// It was withdrawn, or another client cancelled it. The server may have granted the lock
		// before.
		if c.busy == nil {
			c.begin()
		}
		now := s.doubt(c, nil)
		s.watches.notifyOwner(c.ID)
		s.mu.Unlock()
		if now {
			s.freeAsync(c, 0, nil)
		}
		return
	}
	c.state, c.fence = ready, uint64(value)
	s.arm(c, readyFor, s.expireReady)
	if s.clock.Now()-c.since < queueGrace/2 {
		s.watches.notifyOwner(c.ID)
		s.mu.Unlock()
		return
	}
	c.since = s.clock.Now()
	c.begin()
	s.mu.Unlock()
	done := func(k *pgwire.Call) { s.beatDone(c, k) }
	if err := l.do(beat, c, c.ttl+queueGrace-grace, done); err != nil {
		return
	}
	l.WatchNow()
	s.mu.Lock()
	s.watches.notifyOwner(c.ID)
	s.mu.Unlock()
}

// beatDone records that the server counts the TTL of a ready claim from a time after c.since.
func (s *Store) beatDone(c *claim, k *pgwire.Call) {
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

// expireReady releases a lock whose owner did not take it.
func (s *Store) expireReady(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.state != ready || s.closed:
	case c.busy != nil:
		s.arm(c, readyFor, s.expireReady)
	default:
		s.releaseLater(c)
	}
}

// withdraw removes a claim from the server's queue, and returns a channel that is then closed. s.mu
// is held.
func (s *Store) withdraw(c *claim) <-chan struct{} {
	c.state = releasing
	op := c.begin()
	if l := c.link; l != nil {
		s.wg.Go(func() { s.cancelWait(l, op) })
	}
	return op.done
}

// cancelWait ends the wait of a connection. It closes a connection that cannot be cancelled.
func (s *Store) cancelWait(l *link, op *operation) {
	timer := time.NewTimer(callLimit / 4)
	defer timer.Stop()
	l.Cancel(s.running)
	select {
	case <-op.done:
	case <-timer.C:
		l.Close()
	}
}
