package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// thisHost uses the clock that counts since the boot, suspends included. A time namespace shifts
// this clock for its processes. thisHost removes the shift, so that containers of one host agree.
func thisHost() (host, error) { return hostOf("/proc/sys/kernel/random/boot_id") }

// hostOf is thisHost, with the boot identifier in a file.
func hostOf(path string) (host, error) {
	boot, err := bootName(path)
	if err != nil {
		return host{}, err
	}
	shift := bootShift()
	return host{
		boot: boot,
		elapsed: func() time.Duration {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
				return 0 // only before Linux 2.6.39
			}
			return time.Duration(ts.Nano()) - shift
		},
		kind: fileSystemOf,
	}, nil
}

// bootName reads the boot identifier. If it is hidden, there is no substitute: with another clock
// or another identifier, this process would free the claims of the processes that can read it.
func bootName(path string) (string, error) {
	text, err := os.ReadFile(path)
	name := strings.TrimSpace(string(text))
	if err == nil && name == "" {
		err = errors.New(path + " is empty")
	}
	if err != nil {
		return "", fmt.Errorf("sqlite: the boot identifier cannot be read here, by which the processes of a host agree on the time: %w: "+
			"make it visible (systemd: ProcSubset=all; chroot: mount -t proc), or use a store on a server", err)
	}
	return name, nil
}

// bootShift returns by how much this time namespace shifts the boot clock. The kernel reports it in
// a line "boottime SECONDS NANOSECONDS".
func bootShift() time.Duration {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0 // a kernel without time namespaces
	}
	for line := range strings.Lines(string(text)) {
		var s, ns int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &s, &ns); n == 2 {
			return time.Duration(s)*time.Second + time.Duration(ns)
		}
	}
	return 0
}

// fileSystemOf returns the file system of a folder.
func fileSystemOf(folder string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return fileSystem{}, err
	}
	return classify(int64(st.Type) & 0xffffffff), nil
}
