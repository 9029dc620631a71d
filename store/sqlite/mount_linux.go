package sqlite

import "golang.org/x/sys/unix"

// mountPoint reports whether the path itself is a mount point. It returns false if the kernel does
// not report that: before Linux 5.8, or behind a filter of system calls.
func mountPoint(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_NLINK, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
