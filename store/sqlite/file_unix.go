//go:build unix

package sqlite

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// writable returns an error if this user cannot write the file, also because of a read-only mount.
func writable(path string) error {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return fmt.Errorf("it is read-only for this user: %w", err)
	}
	return nil
}

// links returns how many names a file has.
func links(file fs.FileInfo) uint64 {
	if st, ok := file.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // its type differs between systems
	}
	return 1
}
