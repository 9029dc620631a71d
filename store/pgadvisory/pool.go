package pgadvisory

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/distlock/distlock/driver"
)

// callLimit is how long the server may take for an answer before its connection is given up. It is longer than any trust in
// what is asked for that way, and there for the sake of those who come later.
const callLimit = 10 * time.Second

// scarceFor is how long no connection is asked for that is not needed, after one could not be made.
const scarceFor = time.Second

// pick returns the connection for a new claim, or what to wait for. Neither: another connection has to be made, or all of them hold the key.
// It is called with the lock held.
func (s *Store) pick(number int64, ttl time.Duration) (best *link, wait <-chan struct{}) {
	type merit struct {
		stuck  bool
		misfit time.Duration
		calls  int
		idle   time.Duration
	}
	less := func(a, b merit) bool {
		switch {
		case a.stuck != b.stuck:
			return b.stuck
		case a.misfit != b.misfit:
			return a.misfit < b.misfit
		case a.calls != b.calls:
			return a.calls < b.calls
		}
		return a.idle < b.idle // the server has it at hand, and others may end
	}
	var top merit
	taking := s.dialing
	for l := range s.links {
		calls, first, idle := l.load()
		if l.waits {
			continue
		}
		if len(l.claims) == 0 && l.stale(idle) {
			s.breakLink(l)
			continue
		}
		taking++
		if l.holds[number] > 0 {
			continue
		}
		if m := (merit{first > stuck, l.fits(ttl), calls, idle}); best == nil || less(m, top) {
			best, top = l, m
		}
	}
	switch {
	case best != nil && !top.stuck && top.misfit == 0 && top.calls == 0:
		return best, nil
	case taking < s.opt.Conns && (best == nil || time.Since(s.scarce) > scarceFor):
		return nil, nil
	case best == nil && s.dialing > 0:
		return nil, s.changed
	}
	return best, nil
}

// crowded returns a connection that holds a key for other readers, if all that there may be do. It is called with the lock held.
func (s *Store) crowded(number int64) (best *link) {
	taking := 0
	for l := range s.links {
		if l.waits {
			continue
		}
		taking++
		if n := l.holds[number]; n > 0 && (best == nil || n < best.holds[number]) {
			best = l
		}
	}
	if taking < s.opt.Conns {
		return nil
	}
	return best
}

// dial makes another connection that takes locks, which the caller has counted in dialing.
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

// adopt makes a connection one of the store's. It is called with the lock held.
func (s *Store) adopt(l *link) error {
	if s.closed {
		_ = l.conn.Close()
		return errClosed
	}
	keepAlive(l.conn)
	s.links[l] = true
	s.wg.Add(1)
	l.begin(func() {
		s.over(l)
		s.wg.Done()
	})
	return nil
}

// keepAlive has a peer noticed that is gone, also where nothing is sent.
func keepAlive(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 3 * time.Second, Count: 3})
	}
}

// over notes that a connection has ended: all that it held is lost.
func (s *Store) over(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
	var lost []driver.ID
	for c := range l.claims {
		if c.state == held {
			lost = append(lost, c.ID)
		}
		s.watches.tellOwner(c.ID)
		s.remove(c)
		c.finish(false, l.wire.err)
	}
	if len(lost) > 0 {
		s.tellLosses(lost)
	}
	s.change()
}

// breakLink ends a connection, and what it holds. It is called with the lock held.
func (s *Store) breakLink(l *link) {
	delete(s.links, l) // nobody shall pick it any more
	s.wg.Go(l.end)
}

// cancel has the server end the wait of a connection.
func (l *link) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = l.pg.CancelRequest(ctx)
}

// sweep ends connections that nobody answers on, and those that nobody needs.
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
			calls, first, idle := l.load()
			switch {
			case l.waits:
			case calls > 0 && first > callLimit:
				_ = l.conn.Close()
			case calls == 0 && len(l.claims) == 0 && l.stale(idle):
				s.breakLink(l)
			}
		}
		s.mu.Unlock()
	}
}
