package pgadvisory

import (
	"context"
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

// Watch returns a channel that is ready when id was granted in the server's queue. id joins the
// queue at its next refusal. Watch returns nil if [Options.Waits] others wait already. Without an
// owner, the channel is ready when a claim of this process on the key ends; the server does not
// report claims of other processes.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	wake := make(chan driver.Wake, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil
	case id.Owner == "":
		s.watchers[wake] = s.number(id.Key)
	case len(s.waiters) >= s.opt.Waits || s.waiters[id] != nil:
		return nil
	default:
		s.waiters[id] = wake
	}
	context.AfterFunc(ctx, func() { s.unwatch(id, wake) })
	return wake
}

// unwatch ends a watch. Its owner, if it has one, then leaves the queue.
func (s *Store) unwatch(id driver.ID, wake chan driver.Wake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, wake)
	delete(s.waiters, id)
	c := s.claims[id]
	switch {
	case c == nil || s.closed:
	case c.state == waiting:
		s.withdraw(c)
	case c.state == ready && c.busy == nil:
		s.release(c, nil)
	}
}

// notify makes a watcher's channel ready; nil: there is none.
func notify(wake chan driver.Wake) {
	select {
	case wake <- driver.Wake{}:
	default: // it is ready
	}
}

// enqueue makes a refused owner that watches wait in the server's queue. s.mu is held.
func (s *Store) enqueue(a *attempt) {
	if s.closed || s.waiters[a.ID] == nil || s.claims[a.ID] != nil {
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
	value, ok, err := c.link.answer(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.link.waits = false
	s.change()
	switch {
	case lost(err):
		return // linkEnded notifies
	case err != nil || !ok || c.state != waiting:
		// It was withdrawn, or another client cancelled it. The server may have granted the lock
		// before.
		if c.busy == nil {
			c.begin()
		}
		if s.doubt(c, nil) {
			s.release(c, nil)
		}
	default:
		c.state, c.fence, c.ends = ready, uint64(value), s.clock.Now()+readyFor
		s.arm(c, readyFor)
	}
	notify(s.waiters[c.ID])
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
