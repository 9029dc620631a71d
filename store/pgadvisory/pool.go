package pgadvisory

import (
	"cmp"
	"context"
	"time"

	"github.com/distlock/distlock/driver"
)

// callLimit is how long the server may take for an answer before its connection is closed. It is
// longer than any trust in the answer, and only helps later calls.
const callLimit = 10 * time.Second

// scarceFor is the time after a failed connection in which no optional connection is made.
const scarceFor = time.Second

// pick returns the connection for a new claim, or a channel to wait for. If it returns neither,
// another connection must be made. It returns a connection that holds the key for other readers
// only if no further connection is allowed. s.mu is held.
func (s *Store) pick(number int64, ttl time.Duration) (best *link, wait <-chan struct{}) {
	// Less is better. Recently used ones are fast, and the others may end.
	type cost struct{ stuck, misfit, calls, idle time.Duration }
	var least cost
	var shared *link
	taking := s.dialing
	for l := range s.links {
		calls, first, idle := l.Load()
		if l.waits {
			continue
		}
		if len(l.claims) == 0 && l.stale(idle) {
			s.breakLink(l)
			continue
		}
		taking++
		if n := l.holds[number]; n > 0 {
			if shared == nil || n < shared.holds[number] {
				shared = l
			}
			continue
		}
		c := cost{first / stuck, l.fits(ttl), time.Duration(calls), idle}
		if best == nil || cmp.Or(cmp.Compare(c.stuck, least.stuck), cmp.Compare(c.misfit, least.misfit),
			cmp.Compare(c.calls, least.calls), cmp.Compare(c.idle, least.idle)) < 0 {
			best, least = l, c
		}
	}
	switch {
	case best != nil && least.stuck+least.misfit+least.calls == 0:
		return best, nil
	case taking < s.opt.Conns && (best == nil || time.Since(s.scarce) > scarceFor):
		return nil, nil
	case best == nil && s.dialing > 0:
		return nil, s.changed
	}
	return cmp.Or(best, shared), nil
}

// dial makes another connection that acquires locks. The caller has counted it in dialing.
func (s *Store) dial(ctx context.Context) error {
	l, err := s.connect(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing--
	s.change()
	if err != nil {
		s.scarce = time.Now()
		return err
	}
	return s.adopt(l)
}

// linked reports whether there is any connection.
func (s *Store) linked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links) > 0
}

// adopt adds a connection to the store. s.mu is held.
func (s *Store) adopt(l *link) error {
	if s.closed {
		l.Close()
		return errClosed
	}
	s.links[l] = true
	s.wg.Add(1)
	l.Watch(func() {
		s.linkEnded(l)
		s.wg.Done()
	})
	return nil
}

// linkEnded records that a connection has ended: all its claims are lost.
func (s *Store) linkEnded(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
	var lost []driver.ID
	for c := range l.claims {
		if c.state == held {
			lost = append(lost, c.ID)
		}
		notify(s.waiters[c.ID])
		s.remove(c)
		c.finish(false, &lostError{l.Err()})
	}
	if len(lost) > 0 {
		s.notifyLosses(lost)
	}
	s.change()
}

// breakLink ends a connection and its claims. s.mu is held.
func (s *Store) breakLink(l *link) {
	delete(s.links, l) // pick must not return it again
	s.wg.Go(l.End)
}

// sweep closes connections that do not answer, and those that are no longer needed.
func (s *Store) sweep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.running.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		for l := range s.links {
			calls, first, idle := l.Load()
			switch {
			case l.waits:
			case calls > 0 && first > callLimit:
				l.Close()
			case calls == 0 && len(l.claims) == 0 && l.stale(idle):
				s.breakLink(l)
			}
		}
		s.mu.Unlock()
	}
}
