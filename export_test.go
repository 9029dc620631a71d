package distlock

import "runtime"

// Lines tells how many keys the Locker has anything to do with.
func Lines(l *Locker) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// Locked tells whether the Locker's lock is held, and stays so: by whom asks, that is, and not by another goroutine
// for a moment. That one may be on a processor that the machine takes away for a while, and the clock of a bubble stands
// still meanwhile: so many looks take seconds.
func Locked(l *Locker) bool {
	for range 10_000_000 {
		if l.mu.TryLock() {
			l.mu.Unlock()
			return false
		}
		runtime.Gosched()
	}
	return true
}

// Pools tells how many names the Limiter remembers shares of.
func Pools(m *Limiter) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pools)
}
