package pgadvisory

import (
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
)

// Release gives the lock back. Who waits for it in the server's line has it at once.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		c := s.claims[id]
		var wait *attempt
		free, over := false, false
		switch {
		case s.closed:
			s.mu.Unlock()
			return errClosed
		case c == nil:
			s.mu.Unlock()
			return driver.ErrNotHeld
		case c.busy != nil:
			wait = c.busy
		case c.state == waiting:
			s.withdraw(c)
			s.mu.Unlock()
			return driver.ErrNotHeld
		default:
			over = c.state == held && s.clock.Now() >= c.ends
			wait, free = s.giveBack(c), true
		}
		s.mu.Unlock()
		if !free {
			select {
			case <-wait.done:
				continue // look again
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.free(c, 0, nil)
		if err := c.link.await(ctx, wait.done); err != nil {
			return err
		}
		switch {
		case wait.err != nil:
			return wait.err
		case over || !wait.ok:
			return driver.ErrNotHeld
		default:
			return nil
		}
	}
}

// expire ends a claim whose TTL is over.
func (s *Store) expire(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state != held {
		return
	}
	if left := c.ends - s.clock.Now(); left > 0 || c.busy != nil {
		s.arm(c, max(left, grace/50), s.expire) // it is asked for again just now
		return
	}
	s.giveBackLater(c)
}

// giveBack notes that a claim which is held or ready is ending; the caller calls free next, without the lock.
func (s *Store) giveBack(c *claim) *attempt {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.state = leaving
	return c.begin()
}

// giveBackLater is giveBack and free, for those who have the lock.
func (s *Store) giveBackLater(c *claim) *attempt {
	try := s.giveBack(c)
	s.wg.Go(func() { s.freeUnseen(c, 0, nil) })
	return try
}

// undo ends a claim that is busy. The reason is for whoever asked for it. It is called with the lock held.
func (s *Store) undo(c *claim, reason error) {
	c.state = leaving
	s.wg.Go(func() { s.freeUnseen(c, 0, reason) })
}

// freeTries is how often a lock is given back before its connection is ended: somebody may cancel the statement.
const freeTries = 3

// free gives a lock back.
func (s *Store) free(c *claim, tries int, reason error) {
	l := c.link
	v := freeShared
	if c.exclusive() {
		v = freeExclusive
	}
	err := l.do(v, c, 0, func(k *call) {
		value, _, err := l.answer(k)
		switch {
		case err != nil && !lost(err) && tries+1 < freeTries:
			s.mu.Lock()
			if s.doubt(c, reason) {
				s.wg.Go(func() { s.freeUnseen(c, tries+1, reason) })
			}
			s.mu.Unlock()
			return
		case err != nil && !lost(err):
			s.mu.Lock()
			s.breakLink(l)
			s.mu.Unlock()
		}
		s.freed(c, value == 1, reason, err)
	})
	if err != nil {
		s.freed(c, false, reason, err)
	}
}

// freeUnseen is free for those who do not wait for the answer.
func (s *Store) freeUnseen(c *claim, tries int, reason error) {
	s.free(c, tries, reason)
	c.link.listen()
}

// freed notes that a lock is not held any more, or that nobody knows.
func (s *Store) freed(c *claim, ok bool, reason, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
	if lost(err) && errors.Is(err, driver.ErrUnavailable) {
		err = nil // the server ended the connection, and the lock with it: it is not held
	}
	c.finish(ok || c.doubted, errors.Join(reason, err)) // one in doubt was held until it was first given back
}
