//go:build unix

package dashboard

import "io/fs"

// private reports whether only its user may read or write a file.
func private(m fs.FileMode) bool { return m.Perm()&0o077 == 0 }
