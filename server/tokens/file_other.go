//go:build !unix

package tokens

import (
	"io/fs"
	"os"
)

// writable returns why the file cannot be used, or "". The system has no modes that say who may
// write to a file.
func writable(info fs.FileInfo) string {
	if !info.Mode().IsRegular() {
		return "it is no regular file"
	}
	return ""
}

func inherit(*os.File, fs.FileInfo) error { return nil }

func syncDir(string) error { return nil }
