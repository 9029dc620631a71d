//go:build !linux && !darwin

package sqlite

// roomIn cannot tell on this system.
func roomIn(string) (bytes uint64, known bool) { return 0, false }
