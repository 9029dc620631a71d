package testenv

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func mount(path string, size int64) error {
	if os.Getuid() != 0 {
		return &missingError{"right to mount a small disk", "run the tests as root"}
	}
	err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0711", size))
	if errors.Is(err, syscall.EPERM) {
		return &missingError{"right to mount a small disk", "run the tests where root may mount, such as a privileged container"}
	}
	return err
}

func unmount(path string) error { return syscall.Unmount(path, syscall.MNT_DETACH) }

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) }
