package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// prepare creates the file and its folder if they do not exist, and refuses a file that cannot keep
// claims.
//
// It never opens an existing file: closing the file again would release the locks that another
// Store of this process has on it.
func (s *Store) prepare() error {
	folder := filepath.Dir(s.path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return unwritable(folder, err)
	}
	kind, err := s.host.kind(folder)
	if err != nil {
		return err
	}
	if kind.foreign {
		return fmt.Errorf("it is on a network file system (%s), where processes of other machines are not excluded: "+
			"choose a folder on a local disk", kind.name)
	}
	file, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(s.path); err != nil {
			return unwritable(folder, err)
		}
		file, err = os.Lstat(s.path)
	}
	if err != nil {
		return err
	}
	if links(file) > 1 {
		if file, err = settled(file, s.path); err != nil {
			return err
		}
	}
	return check(file, s.path)
}

// settled removes the drafts of a file that a create has left or is using now. It returns the info
// of the file after that.
func settled(file fs.FileInfo, path string) (fs.FileInfo, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), draftOf(path)) {
			continue
		}
		draft := filepath.Join(filepath.Dir(path), e.Name())
		if other, err := os.Lstat(draft); err == nil && os.SameFile(file, other) {
			_ = os.Remove(draft) // it may already be removed
		}
	}
	return os.Lstat(path)
}

// draftOf returns the prefix of the names of a file's drafts.
func draftOf(path string) string { return "." + filepath.Base(path) + "-" }

// errFolder means that no file can be created in the folder.
var errFolder = errors.New("its folder cannot be written to")

// unwritable explains why no file can be created in a folder, and what to do. A cause that may
// pass, such as a full disk, becomes [driver.ErrUnavailable].
func unwritable(folder string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // users know the folder, and not the path of a draft
	}
	for _, lasting := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if errors.Is(err, lasting) {
			return fmt.Errorf("%w: %s: %w: make it writable for this user, or name a file elsewhere, sqlite:///FOLDER/FILE",
				errFolder, folder, err)
		}
	}
	return definite(fmt.Errorf("%s: %w", folder, err))
}

// check refuses a file that two processes could see differently, or that this user cannot protect
// or write.
func check(file fs.FileInfo, path string) error {
	switch mode := file.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return errors.New("it is a symbolic link, which may lead anywhere: use the path of the file itself")
	case !mode.IsRegular():
		return errors.New("it is not a regular file")
	case links(file) > 1:
		return fmt.Errorf("it has %d names (hard links), and SQLite keeps a log for each: "+
			"two processes that use different names would both hold a lock. Remove all names but one", links(file))
	case mountPoint(path):
		return errors.New("the file itself is a mount point, and SQLite keeps its log in the folder: " +
			"a process that uses the file by its other path would hold the same lock. " +
			"Mount the folder that contains the file, not the file")
	case mode.Perm()&0o200 == 0:
		return errors.New("it is read-only: chmod u+w")
	case runtime.GOOS != "windows" && mode.Perm()&0o077 != 0:
		return fmt.Errorf("others may open it (mode %04o), and a user who writes to it can end every claim: chmod go-rwx",
			mode.Perm())
	}
	return writable(path)
}

// create creates an empty file. The file is complete and closed before it gets its name.
func create(path string) error {
	draft := filepath.Join(filepath.Dir(path), draftOf(path)+rand.Text()[:12])
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(draft)
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Link(draft, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
