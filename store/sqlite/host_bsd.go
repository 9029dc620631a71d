//go:build darwin || freebsd || netbsd || openbsd

package sqlite

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// thisHost counts from kern.boottime, which the system adjusts when the time of day is set. So
// kern.boottime cannot identify the boot. macOS has a boot identifier; the BSDs have none.
func thisHost() (host, error) {
	if runtime.GOOS != "darwin" {
		// Without a boot identifier, claims by the boot clock would outlive a reboot for long.
		return wallHost(), nil
	}
	_, err := unix.SysctlTimeval("kern.boottime")
	id := ""
	if err == nil {
		id, err = unix.Sysctl("kern.bootsessionuuid")
	}
	if err != nil {
		// With another clock or identifier than other processes, this one would free their claims.
		return host{}, fmt.Errorf("sqlite: kern.boottime and kern.bootsessionuuid cannot be read here, "+
			"by which the processes of a host agree on the time: %w: "+
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
