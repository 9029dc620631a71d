package keeper

import (
	"testing"
	"time"
)

func TestAsleep(t *testing.T) {
	c := NewClock()
	a := c.read()
	for range 1000 {
		if asleep() < 0 {
			t.Fatalf("asleep for %v", asleep())
		}
	}
	if b := c.read(); b-a > time.Second || a-b > time.Second {
		t.Errorf("asleep for %v, and then for %v: was this machine suspended?", a, b)
	}
}

func TestRead_of_a_clock_that_is_not_there(t *testing.T) {
	if got := read(1000); got != 0 {
		t.Errorf("read %v", got)
	}
	if read(clockMonotonic) <= 0 || read(clockBoottime) <= 0 {
		t.Error("the clocks of this machine stand at zero")
	}
}

// The time asleep is the difference of the two kernel clocks, and not more: a machine that has run
// for a day has not slept for two.
func TestClock_reads_the_kernel_clocks(t *testing.T) {
	before := read(clockMonotonic)
	got := asleep()
	most := read(clockBoottime) - before // also if the thread was stopped in between
	if before <= 0 || got < 0 || got > most {
		t.Errorf("asleep for %v, want at most %v", got, most)
	}
}
