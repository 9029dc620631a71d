//go:build darwin || freebsd || netbsd || openbsd

package sqlite

import (
	"time"

	"golang.org/x/sys/unix"
)

// thisHost counts from kern.boottime, which the system moves along when the time of day is set. It moves by that, so it
// cannot name the boot: macOS has a name for it, the BSDs have none.
func thisHost() host {
	h := wallHost()
	if _, err := unix.SysctlTimeval("kern.boottime"); err != nil {
		return h
	}
	h.elapsed = func() time.Duration {
		at, err := unix.SysctlTimeval("kern.boottime")
		if err != nil {
			return 0
		}
		return time.Since(time.Unix(at.Unix()))
	}
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil { // macOS
		h.boot = id
		return h
	}
	return wallHost() // without a name for the boot its clock would free nothing after a reboot, and hold for long
}
