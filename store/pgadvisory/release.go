package pgadvisory

import (
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
)

// Release releases the lock. The next waiter in the server's queue has it at once.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	c := s.claims[id]
	for !s.closed && c != nil && c.busy != nil {
		busy := c.busy.done
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.mu.Lock()
		c = s.claims[id]
	}
	if s.closed || c == nil || c.state == waiting {
		defer s.mu.Unlock()
		if s.closed {
			return errClosed
		}
		if c != nil {
			s.withdraw(c)
		}
		return driver.ErrNotHeld
	}
	expired := c.state == held && s.clock.Now() >= c.ends
	c.state = releasing
	op := c.begin()
	s.mu.Unlock()
	s.free(c, 0, nil)
	switch err := c.link.Await(ctx, op.done); {
	case err != nil:
		return err
	case op.err != nil:
		return op.err
	case expired || !op.ok:
		return driver.ErrNotHeld
	}
	return nil
}

// expire ends a claim whose TTL has passed, or that its owner did not take.
func (s *Store) expire(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state != held && c.state != ready {
		return
	}
	if left := c.ends - s.clock.Now(); left > 0 || c.busy != nil {
		s.arm(c, max(left, grace/50)) // another attempt of its owner is in progress
		return
	}
	s.release(c, nil)
}

// release sends the unlock of a claim in the background. Its operation, the one in progress or a
// new one, then ends with the reason. s.mu is held.
func (s *Store) release(c *claim, reason error) *operation {
	c.state = releasing
	op := c.busy
	if op == nil {
		op = c.begin()
	}
	s.wg.Go(func() { s.freeAsync(c, 0, reason) })
	return op
}

// freeTries is how often an unlock is sent before its connection is closed: somebody may cancel the
// statement.
const freeTries = 3

// free sends the unlock of a claim.
func (s *Store) free(c *claim, tries int, reason error) {
	l := c.link
	v := freeShared
	if c.exclusive() {
		v = freeExclusive
	}
	err := l.do(v, c, 0, func(k *pgwire.Call) {
		value, _, err := l.answer(k)
		switch {
		case err != nil && !lost(err) && tries+1 < freeTries:
			s.mu.Lock()
			if s.doubt(c, reason) {
				s.wg.Go(func() { s.freeAsync(c, tries+1, reason) })
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

// freeAsync is free for callers that do not wait for the answer.
func (s *Store) freeAsync(c *claim, tries int, reason error) {
	s.free(c, tries, reason)
	c.link.WatchNow()
}

// freed records that a lock is no longer held, or that this is unknown.
func (s *Store) freed(c *claim, ok bool, reason, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
	if lost(err) && errors.Is(err, driver.ErrUnavailable) {
		err = nil // the server ended the connection and with it the lock
	}
	// A claim in doubt was held until its first unlock.
	c.finish(ok || c.doubted, errors.Join(reason, err))
}
