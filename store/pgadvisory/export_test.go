package pgadvisory

// Collide makes names that share what f returns share a lock.
func (s *Store) Collide(f func(name string) int64) { s.number = f }

// Links tells how many connections the store has.
func (s *Store) Links() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}

// PIDs are the server's processes that hold something.
func (s *Store) PIDs() (pids []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.links {
		if len(l.claims) > 0 {
			pids = append(pids, l.pid)
		}
	}
	return pids
}
