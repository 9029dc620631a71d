package redis

// Merges returns the SHA-1 of the scripts of a store that do many calls as one, and how many
// arguments such a call has.
func (s *Store) Merges() map[string]int {
	return map[string]int{s.scripts.acquire.sha: 3, s.scripts.release.sha: 1}
}
