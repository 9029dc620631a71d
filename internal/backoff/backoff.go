// Package backoff computes the pause between two attempts.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Pause returns how long to pause after n attempts have failed: a random duration between shortest
// and shortest times 2 to the power of n, at most longest. Randomness keeps clients that failed
// together from trying again together. If shortest equals longest, the result is exact. Pause has
// no state, and n may be any number.
func Pause(n int, shortest, longest time.Duration) time.Duration {
	d := shortest
	for i := 0; i < max(n, 1) && d < longest; i++ {
		if d > longest/2 {
			d = longest // also where doubling would overflow
		} else {
			d *= 2
		}
	}
	d = min(d, longest)
	return min(shortest, d) + rand.N(d-min(shortest, d)+1)
}

// Jitter returns a duration between half of d and d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d-d/2+1)
}
