//go:build unix

package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// writable asks the system, which also knows of read-only mounts.
func writable(path string) error {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return fmt.Errorf("it is read-only for this user: %w", err)
	}
	return nil
}
