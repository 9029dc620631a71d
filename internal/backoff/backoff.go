// Package backoff says how long to pause between one try and the next.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Pause returns how long to pause after n tries have failed: first, doubled with every
// try up to most, and between half of that and all of it by chance, so that those who failed
// together do not come back together. It has no state; n may be any number.
func Pause(n int, first, most time.Duration) time.Duration {
	d := first
	for i := 1; i < n && d < most; i++ {
		if d > most/2 {
			d = most // also where doubling would overflow
		} else {
			d *= 2
		}
	}
	return Jitter(min(d, most))
}

// Jitter returns a duration between half of d and d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d-d/2+1)
}
