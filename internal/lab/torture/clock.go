package torture

import "time"

// instant returns one instant as time.Now tells it, and on the clock that processes share. The two
// cannot be read at once: of several tries the one that took least is off by its half at most,
// which is far less than a trip to any store.
func instant() (time.Time, time.Duration) {
	var now time.Time
	var shared time.Duration
	least := time.Duration(1<<63 - 1)
	for range 32 {
		before := monotonic()
		t := time.Now()
		if took := monotonic() - before; took < least {
			now, shared, least = t, before+took/2, took
		}
	}
	return now, shared
}
