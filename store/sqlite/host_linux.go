package sqlite

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// thisHost reads the clock that counts since the boot, suspends included. A time namespace shifts it for the processes inside; the
// shift is taken out, so that containers of one host agree.
func thisHost() host {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return wallHost()
	}
	shift := bootShift()
	return host{
		boot: strings.TrimSpace(string(boot)),
		elapsed: func() time.Duration {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
				return 0 // not since Linux 2.6.39
			}
			return time.Duration(ts.Nano()) - shift
		},
		kind: fileSystemOf,
	}
}

// bootShift is by how much the boot clock is shifted here: a line "boottime SECONDS NANOSECONDS".
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

// foreign are file systems that other machines may reach, by the number that statfs gives them.
var foreign = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p", 0x65735546: "FUSE",
	0x00c36400: "Ceph", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x01161970: "GFS2",
	0x7461636f: "OCFS2", 0x0bd00bd0: "Lustre", 0x564c: "NCP", 0x786f4256: "VirtualBox shared folder", 0x47504653: "GPFS",
	0x19830326: "BeeGFS", 0xbacbacbc: "VMware shared folder",
}

func fileSystemOf(folder string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return fileSystem{}, err
	}
	return judged(int64(st.Type) & 0xffffffff), nil
}

func judged(magic int64) fileSystem {
	if name, ok := foreign[magic]; ok {
		return fileSystem{name: name, foreign: true, known: true}
	}
	return fileSystem{name: fmt.Sprintf("local (type %#x)", magic), known: true}
}
