package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/goleak"
)

// An inventory is what a process has: its goroutines and its open files.
type inventory struct {
	ignore goleak.Option
	files  int
}

func newInventory() *inventory {
	// The first connection makes the runtime open files of its own, which stay.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = l.Close()
	}
	return &inventory{ignore: goleak.IgnoreCurrent(), files: len(openFiles())}
}

// pgxCloses is how pgx closes a connection whose server does not answer: on its own, within 15 seconds.
const pgxCloses = "github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1"

// compare tells what there is more of. What is about to end has a few seconds for it.
func (i *inventory) compare() error {
	err := goleak.Find(i.ignore)
	if err != nil && goleak.Find(i.ignore, goleak.IgnoreAnyFunction(pgxCloses)) == nil {
		return nil // and it has its files open still
	}
	if err != nil {
		return fmt.Errorf("faults: goroutines are left: %w", err)
	}
	var open []string
	for range 40 {
		if open = openFiles(); len(open) <= i.files {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("faults: %d files are open, and %d were before: %v", len(open), i.files, open)
}

// openFiles are those of this process, where the system tells.
func openFiles() []string {
	names, _ := filepath.Glob("/proc/self/fd/*")
	var open []string
	for _, n := range names {
		if target, err := os.Readlink(n); err == nil { // that of the look itself is gone
			open = append(open, target)
		}
	}
	return open
}
