//go:build !linux

package sqlite

// user returns "": this system does not list locks.
func user(string) string { return "" }
