//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// spaceIn returns how many bytes a user may still write to the disk of a folder.
func spaceIn(folder string) (bytes uint64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
