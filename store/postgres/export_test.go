package postgres

// Queued tells how many calls about claims wait until one that is under way is answered; -1: none is under way.
func (s *Store) Queued() int {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if s.claims.wire == nil {
		return -1
	}
	return len(s.claims.queue)
}
