package mysql

import "github.com/distlock/distlock/driver"

// Swept waits until no sweep runs. There must be no calls at the same time.
func (s *Store) Swept() { s.sweeper.wg.Wait() }

// Conns returns the number of open connections.
func (s *Store) Conns() int {
	return s.claims.Stats().OpenConnections + s.renews.Stats().OpenConnections
}

// Sending puts an attempt into a statement for many that is in progress until the result is called.
func (s *Store) Sending(r driver.Request) (made func()) {
	a := &attempt{r: &r, ready: make(chan struct{})}
	s.passing.mu.Lock()
	defer s.passing.mu.Unlock()
	s.passing.keys[r.Key] = &keyAttempts{busy: 1, sent: []*attempt{a}}
	return func() {
		close(a.ready)
		s.passing.leave(r.Key)
	}
}
