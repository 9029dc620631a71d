package distlock

// Lines tells how many keys the Locker has anything to do with.
func Lines(l *Locker) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}
