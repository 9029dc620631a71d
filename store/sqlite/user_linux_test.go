package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

// The error names the process that keeps the file, and reports that the process is stopped.
func TestStore_busy_by(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	s := opened(t, path, nil)
	grant(t, s, exclusive("k", time.Minute))
	h := testenv.Helper(t, "keep", path)
	h.Line()
	busy := func(want string) {
		t.Helper()
		_, err := s.Acquire(t.Context(), exclusive("other", 400*time.Millisecond))
		if !errors.Is(err, driver.ErrUnavailable) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want it with %q", err, want)
		}
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.PID()))
	if err != nil {
		t.Fatal(err)
	}
	who := fmt.Sprintf("process %d (%s)", h.PID(), strings.TrimSpace(string(name)))
	busy("in use by others: " + who)
	soon, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	if s, err := sqlite.Open(soon, path, nil); !errors.Is(err, driver.ErrUnavailable) ||
		!strings.HasSuffix(err.Error(), who) {
		t.Errorf("Open: %v, %v, want it with %q", s, err, who)
	}
	h.Pause()
	busy("in use by others: " + who + ", which is stopped")
	h.Kill()
	grant(t, s, exclusive("other", time.Minute))
}
