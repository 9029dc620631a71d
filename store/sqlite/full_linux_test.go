package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

func TestStore_full_disk(t *testing.T) {
	dir := testenv.NewDisk(t, 512<<10).Path
	s := opened(t, filepath.Join(dir, "locks.db"), nil)
	finds(t, s, "warning: the disk has only ")
	held := exclusive("held", time.Hour)
	fence := grant(t, s, held)
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	var full error
	for i := range 200 { // the log has some space left
		r := exclusive("k"+strconv.Itoa(i), time.Hour)
		r.Value = make([]byte, 8192)
		if _, full = s.Acquire(t.Context(), r); full != nil {
			if claims, err := s.Show(t.Context(), r.Key); err != nil || len(claims) > 0 {
				t.Errorf("something was changed: %v, %v", claims, err)
			}
			break
		}
	}
	if !errors.Is(full, driver.ErrUnavailable) {
		t.Fatalf("on a full disk: %v", full)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Acquire(t.Context(), held); err != nil || res.Fence != fence {
		t.Errorf("the claim from before: %+v, %v", res, err)
	}
	grant(t, s, exclusive("later", time.Hour))
}

// The write-ahead log grows until SQLite moves it into the file. If it fills the disk before that,
// the store moves it.
func TestStore_full_log(t *testing.T) {
	path := filepath.Join(testenv.NewDisk(t, 1<<20).Path, "locks.db")
	// the last store to close the file would move the log
	s, other := opened(t, path, nil), opened(t, path, nil)
	grant(t, other, exclusive("held", time.Hour))
	failed := 0
	for range 1000 { // 4 KiB each at least
		r := exclusive("key", time.Hour)
		if _, err := s.Acquire(t.Context(), r); err != nil {
			if failed++; !errors.Is(err, driver.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		_ = s.Release(t.Context(), r.ID)
	}
	if failed == 0 || failed > 50 {
		t.Errorf("%d of 1000 failed, want a few: for each time that the log filled the disk", failed)
	}
}

// A file that cannot be created because the disk is full can be created later, so the error is
// ErrUnavailable.
func TestOpen_full_disk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=1,mode=700"); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	for _, path := range []string{"locks.db", "folder/locks.db"} {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, path), nil)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s on a full disk: %v", path, err)
		}
	}
}
