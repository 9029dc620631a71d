package sqlite

import "golang.org/x/sys/unix"

// mountPoint reports whether something is mounted at the path itself. A kernel that cannot tell,
// before 5.8 or behind a filter of system calls, says no.
func mountPoint(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_NLINK, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
