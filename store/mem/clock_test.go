package mem

import (
	"testing"
	"time"
	"unsafe"

	"github.com/distlock/distlock/driver"
)

// set moves the time of day in a reading of the clock and leaves its monotonic part. All later
// readings then differ from it as if the clock of the machine had been set by -by.
func set(t *time.Time, by time.Duration) {
	const seconds = 30 // the first bit of the seconds in a time.Time that has a monotonic reading
	word := (*uint64)(unsafe.Pointer(t))
	*word += uint64(by/time.Second) << seconds
}

// The time of day is set, back and forth. Claims end by the monotonic clock, and fences rise.
func TestStore_time_of_day(t *testing.T) {
	s := New()
	was := s.born
	if set(&was, time.Hour); was.Round(0).Sub(s.born.Round(0)) != time.Hour || was.Sub(s.born) != 0 {
		t.Fatalf("%v and %v: this test does not know the layout of time.Time", s.born, was)
	}
	acquire := func(owner string) driver.Result {
		t.Helper()
		res, err := s.Acquire(t.Context(), driver.Request{
			ID: driver.ID{Key: "key", Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := acquire("a")
	for _, by := range []time.Duration{time.Hour, -2 * time.Hour} {
		set(&s.born, by)
		if acquire("b").Granted {
			t.Errorf("the clock was set, and the key was granted to another owner")
		}
	}
	if err := s.Release(t.Context(), driver.ID{Key: "key", Owner: "a"}); err != nil {
		t.Fatal(err)
	}
	if next := acquire("b"); !next.Granted || next.Fence < first.Fence+driver.Span {
		t.Errorf("granted %v, fence %d after %d", next.Granted, next.Fence, first.Fence)
	}
}
