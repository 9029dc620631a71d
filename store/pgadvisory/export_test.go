package pgadvisory

import "context"

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

// Asked picks a connection for a question, and reports whether one who waits in line could take it before the question is sent.
func (s *Store) Asked(ctx context.Context) (taken bool, err error) {
	l, err := s.any(ctx)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken = s.spare() == l
	l.questions--
	return taken, nil
}
