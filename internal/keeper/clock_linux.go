package keeper

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1 // CLOCK_MONOTONIC stands still while the machine is suspended
	clockBoottime  = 7 // CLOCK_BOOTTIME does not
)

// asleep returns how long the machine has been suspended since boot, plus the pause between the
// two readings.
func asleep() time.Duration {
	awake := read(clockMonotonic)
	return read(clockBoottime) - awake
}

// read calls the kernel directly. The standard library has no call for these clocks, and its own
// clocks are virtual in a synctest bubble.
func read(clock uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 { // no such clock (before Linux 2.6.39), or not permitted
		return 0
	}
	return time.Duration(ts.Nano())
}
