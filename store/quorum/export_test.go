package quorum

// Leftovers returns how many claims and calls the store remembers.
func Leftovers(s *Store) int {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	n := len(s.claims.known)
	for _, q := range s.calls.active {
		n += q.n
	}
	return n
}

// Idle returns how many goroutines wait for a call to a node.
func Idle(s *Store) int {
	s.workers.mu.Lock()
	defer s.workers.mu.Unlock()
	return len(s.workers.idle)
}

// Doubts returns how many releases are in doubt.
func Doubts(s *Store) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return len(s.calls.doubts)
}

// Active returns how many claims have calls under way.
func Active(s *Store) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return len(s.calls.active)
}
