package torture

import "time"

// instant returns one instant as time.Now reports it, and on the clock that processes share. The
// two clocks cannot be read at once. Of several tries the shortest is off by at most half its
// duration, which is far less than a round trip to any store.
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
