//go:build !linux

package sqlite

// mountPoint returns false: only Linux mounts files.
func mountPoint(string) bool { return false }
