package distlock

import "runtime"

// Keys returns how many keys the Locker has anything to do with.
func Keys(l *Locker) int { return l.queue.Keys() }

// Locked reports whether the Locker's mutex is held, and stays so: by the caller, and not by
// another goroutine for a moment. That one may be on a processor that the machine takes away for a
// while, and the clock of a bubble stands still meanwhile: so many looks take seconds.
func Locked(l *Locker) bool {
	for range 10_000_000 {
		if l.queue.TryMutex() {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// Pools returns how many names the Limiter remembers shares of.
func Pools(m *Limiter) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pools)
}
