package mysql

// Swept waits until no sweep runs. There must be no calls at the same time.
func (s *Store) Swept() { s.sweeper.wg.Wait() }

// Conns returns the number of open connections.
func (s *Store) Conns() int {
	return s.claims.Stats().OpenConnections + s.renews.Stats().OpenConnections
}
