//go:build darwin || freebsd || netbsd || openbsd

package sqlite

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// thisHost counts from kern.boottime, which the system moves along when the time of day is set. It moves by that, so it
// cannot name the boot: macOS has a name for it, the BSDs have none.
func thisHost() (host, error) {
	if runtime.GOOS != "darwin" {
		return wallHost(), nil // without a name for the boot its clock would free nothing after a reboot, and hold for long
	}
	_, err := unix.SysctlTimeval("kern.boottime")
	id := ""
	if err == nil {
		id, err = unix.Sysctl("kern.bootsessionuuid")
	}
	if err != nil {
		// By another clock or name than that of other processes, their claims would be free.
		return host{}, fmt.Errorf("sqlite: kern.boottime and kern.bootsessionuuid cannot be read here, by which the processes of a host agree on the time: %w: "+
			"let the sandbox allow it, or use a store on a server", err)
	}
	h := wallHost()
	h.boot = id
	h.elapsed = func() time.Duration {
		at, err := unix.SysctlTimeval("kern.boottime")
		if err != nil {
			return 0
		}
		return time.Since(time.Unix(at.Unix()))
	}
	return h, nil
}
