package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/store/sqlite"
)

// A process that cannot read the boot identifier would free the claims of processes that can.
func TestOpen_boot_hidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "missing"), empty} {
		if boot, err := sqlite.BootIn(name); err == nil ||
			!strings.Contains(err.Error(), "ProcSubset=all") {
			t.Errorf("%s: the boot is %q, %v", name, boot, err)
		}
	}
}
