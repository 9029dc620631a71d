package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/goleak"
)

// An inventory lists the goroutines and the open files of a process.
type inventory struct {
	ignore goleak.Option
	files  int
}

func newInventory() *inventory {
	// The first connection makes the runtime open files that stay.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = l.Close()
	}
	return &inventory{ignore: goleak.IgnoreCurrent(), files: len(openFiles())}
}

// pgxCloses is the goroutine in which pgx closes a connection whose server does not answer: in the
// background, within 15 seconds.
const pgxCloses = "github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1"

// compare returns an error if the process has more goroutines or files than before. It waits a few
// seconds for those that are about to end.
func (i *inventory) compare() error {
	err := goleak.Find(i.ignore)
	if err != nil && goleak.Find(i.ignore, goleak.IgnoreAnyFunction(pgxCloses)) == nil {
		return nil // its files are still open
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

// openFiles returns the open files of this process, on systems that list them.
func openFiles() []string {
	names, _ := filepath.Glob("/proc/self/fd/*")
	var open []string
	for _, n := range names {
		if target, err := os.Readlink(n); err == nil { // the file of the listing itself is gone
			open = append(open, target)
		}
	}
	return open
}
