package postgres

// Queued returns the number of calls about claims that wait behind the call in progress, or -1 if
// none is in progress.
func (s *Store) Queued() int {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if s.claims.active == nil {
		return -1
	}
	return len(s.claims.queue)
}
