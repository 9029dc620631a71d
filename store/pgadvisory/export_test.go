package pgadvisory

import "context"

// Collide makes names with the same result of f share a lock.
func (s *Store) Collide(f func(name string) int64) { s.number = f }

// Links returns the number of connections of the store.
func (s *Store) Links() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}

// PIDs returns the server processes that hold locks.
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

// WaiterTakesQuestion picks a connection for a question, and reports whether a waiter could take it
// before the question is sent.
func (s *Store) WaiterTakesQuestion(ctx context.Context) (taken bool, err error) {
	l, err := s.anyLink(ctx)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken = s.surplus() == l
	l.questions--
	return taken, nil
}
