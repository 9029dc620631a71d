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

// asleep returns for how long the machine has been suspended since it was booted. The clock
// that is read first is too early by the pause between the two readings.
func asleep(up bool) time.Duration {
	if up {
		awake := read(clockMonotonic)
		return read(clockBoottime) - awake
	}
	all := read(clockBoottime)
	return all - read(clockMonotonic)
}

// read asks the kernel itself: the standard library has no call for these clocks, and
// reads none of them in a synctest bubble.
func read(clock uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 { // no such clock (before Linux 2.6.39), always: both clocks read zero then
		return 0
	}
	return time.Duration(ts.Nano())
}
