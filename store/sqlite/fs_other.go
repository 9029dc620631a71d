//go:build !linux

package sqlite

// fileSystemOf cannot tell on this system.
func fileSystemOf(string) (fileSystem, error) { return fileSystem{}, nil }
