package torture

import (
	"time"

	"golang.org/x/sys/unix"
)

// canProcess says that processes share a clock here, and can be stopped.
const canProcess = true

// monotonic reads the clock that all processes of the host share, and that time.Now uses too.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no Linux without it
	}
	return time.Duration(ts.Nano())
}
