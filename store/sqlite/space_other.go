//go:build !linux && !darwin

package sqlite

// spaceIn returns false: this system has no call for it.
func spaceIn(string) (bytes uint64, known bool) { return 0, false }
