package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

// leaveRole acquires a claim for an hour, and calls Leave.
func leaveRole(args []string) int {
	s, err := sqlite.Open(context.Background(), args[0], nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := exclusive(args[1], time.Hour)
	if res, err := s.Acquire(context.Background(), r); err != nil || !res.Granted {
		fmt.Fprintln(os.Stderr, res, err)
		return 1
	}
	if err := s.Leave(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// The next process finds the claims of a process that called Leave, and the log does not grow
// forever.
func TestStore_leave(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	longest, shortest := int64(0), int64(1<<30)
	for i := range 80 {
		h := testenv.Helper(t, "leave", path, "k"+strconv.Itoa(i))
		if code := h.Wait(); code != 0 {
			t.Fatal(code, h.Log())
		}
		log := int64(0)
		if info, err := os.Stat(path + "-wal"); err == nil {
			log = info.Size()
		}
		longest, shortest = max(longest, log), min(shortest, log)
	}
	if shortest > 0 || longest == 0 || longest > 300<<10 {
		t.Errorf("the log had %d to %d bytes, want 0 now and then, and not much more than 256 KiB", shortest, longest)
	}
	s := opened(t, path, nil)
	if n := len(claimsIn(t, s)); n != 80 {
		t.Errorf("%d of 80 claims are there", n)
	}
}
