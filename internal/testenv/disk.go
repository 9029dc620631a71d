package testenv

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A Disk is a small separate file system, which can be full.
type Disk struct {
	Path string
}

// ballast is the file that fills a disk.
const ballast = "ballast"

// NewDisk mounts a disk of size bytes for the duration of the test. It needs Linux and root.
func NewDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	f, err := newFolder()
	check(t, err)
	t.Cleanup(func() {
		if err := f.remove(); err != nil {
			t.Errorf("testenv: disk: %v", err)
		}
	})
	path := filepath.Join(f.path, diskName)
	check(t, os.Mkdir(path, 0o711))
	check(t, mount(path, size))
	t.Cleanup(func() {
		if err := unmount(path); err != nil {
			t.Errorf("testenv: disk: %v", err)
		}
	})
	return &Disk{Path: path}
}

// CanDisk reports whether this machine allows the tests to create disks.
func CanDisk() bool {
	path, err := os.MkdirTemp("", "distlock-disk-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(path)
	return mount(path, 1<<20) == nil && unmount(path) == nil
}

// Fill leaves no free space on the disk.
func (d *Disk) Fill() error {
	f, err := os.Create(filepath.Join(d.Path, ballast))
	if err != nil {
		return err
	}
	defer f.Close()
	// Large pieces come first, then smaller ones, to the last byte.
	for size := 1 << 20; size > 0; size /= 16 {
		piece := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(piece)
		}
		if !full(err) && !errors.Is(err, io.ErrShortWrite) {
			return err
		}
	}
	return nil
}

// Free makes space again.
func (d *Disk) Free() error {
	err := os.Remove(filepath.Join(d.Path, ballast))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
