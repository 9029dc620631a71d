package torture

import (
	"time"

	"golang.org/x/sys/unix"
)

// canProcess says that processes share a clock on this system, and can be stopped.
const canProcess = true

// monotonic reads the clock that all processes of the host share. time.Now uses it too.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(ts.Nano())
}
