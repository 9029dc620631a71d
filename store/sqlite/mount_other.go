//go:build !linux

package sqlite

// mountPoint reports whether something is mounted at the path itself: files are mounted on Linux
// only.
func mountPoint(string) bool { return false }
