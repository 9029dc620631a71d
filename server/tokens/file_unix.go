//go:build unix

package tokens

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// writable returns why others may write to a file, or "". Others could make themselves tokens.
func writable(info fs.FileInfo) string {
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !info.Mode().IsRegular():
		return "it is no regular file"
	case info.Mode().Perm()&0o022 != 0:
		return "others may write to it: chmod go-w it"
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return "it belongs to another user"
	}
	return ""
}

// inherit gives the new file the mode and the owner of the old one: the server must be able to read
// what an administrator wrote.
func inherit(f *os.File, old fs.FileInfo) error {
	if err := f.Chmod(old.Mode().Perm()); err != nil {
		return err
	}
	stat, ok := old.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(stat.Uid), int(stat.Gid))
}

// syncDir makes a rename survive a loss of power.
func syncDir(path string) error {
	d, err := os.Open(path) //nolint:gosec // the folder of the file that the operator names
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
