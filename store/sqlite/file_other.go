//go:build !unix

package sqlite

// writable is found out by the first write.
func writable(string) error { return nil }
