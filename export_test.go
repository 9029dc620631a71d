package distlock

import (
	"runtime"
	"unsafe"
)

// Keys returns the number of keys that the Locker holds, attempts or waits for.
func Keys(l *Locker) int { return l.queue.Keys() }

// Locked reports whether the Locker's mutex stays held: by the caller, not by another goroutine for
// a moment. The other goroutine may be stalled by the scheduler, and the clock of a bubble does not
// advance meanwhile. Locked therefore tries so often that it takes seconds.
func Locked(l *Locker) bool {
	for range 10_000_000 {
		if l.queue.TryMutex() {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// Pools returns the number of names of which the Limiter has shares.
func Pools(m *Limiter) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pools)
}

// SlabSize is how many bytes the memory of one request has.
const SlabSize = unsafe.Sizeof(slab{})
