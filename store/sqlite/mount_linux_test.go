package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

// A file that is mounted alone, as by docker -v or the subPath of Kubernetes, has its log in two
// folders.
func TestOpen_mounted_file(t *testing.T) {
	if !testenv.CanDisk() {
		testenv.Missing(t, "right to mount", "run the tests as root")
	}
	file, at := filepath.Join(t.TempDir(), "locks.db"), filepath.Join(t.TempDir(), "locks.db")
	opened(t, file, nil)
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(file, at, "", syscall.MS_BIND, ""); err != nil {
		testenv.Missing(t, "bind mounts ("+err.Error()+")",
			"run the tests as root, outside of a container")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, err := sqlite.Open(t.Context(), at, nil); err == nil ||
		!strings.Contains(err.Error(), "Mount the folder") {
		t.Errorf("opened a file that is mounted alone: %v", err)
	}
	opened(t, file, nil) // by its own name
}
