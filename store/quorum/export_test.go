package quorum

// Leftovers tells how many things the store remembers.
func Leftovers(s *Store) int {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	n := len(s.claims.known)
	for _, q := range s.calls.under {
		n += q.n
	}
	return n
}

// Idle tells how many goroutines wait for a call to a node.
func Idle(s *Store) int {
	s.workers.mu.Lock()
	defer s.workers.mu.Unlock()
	return len(s.workers.idle)
}

// Doubts tells how many releases are in doubt.
func Doubts(s *Store) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return len(s.calls.doubts)
}

// Under tells about how many claims calls are under way.
func Under(s *Store) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return len(s.calls.under)
}
