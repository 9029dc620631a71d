//go:build !unix

package sqlite

import "io/fs"

// writable returns nil: the first write shows whether the file is writable.
func writable(string) error { return nil }

// links returns 1: the number of names is not known on this system.
func links(fs.FileInfo) uint64 { return 1 }
