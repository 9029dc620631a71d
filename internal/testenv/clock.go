package testenv

import (
	_ "embed" // the library that servers are started with
	"encoding/binary"
	"os"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// clockVariable is the environment variable that names the file of the offset.
const clockVariable = "DISTLOCK_TEST_CLOCK"

// A Clock is the time of day of some servers. A test sets it while they run. It changes neither the
// monotonic clocks of the servers nor the clock of the machine.
type Clock struct {
	tb   testing.TB
	file *os.File
}

// NewClock takes control of the time of day of servers that the test started. The servers are
// restarted, with their data if they keep any. NewClock needs Linux and a C compiler.
func NewClock(t testing.TB, servers ...*Server) *Clock {
	t.Helper()
	name := servers[0].path("clock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	check(t, f.Chmod(0o644)) // servers may run as another user
	t.Cleanup(func() { f.Close() })
	c := &Clock{tb: t, file: f}
	c.Set(0)
	preload(t, "clock.c", clockSource, servers, clockVariable+"="+name)
	return c
}

// Set makes the servers' time of day differ from the machine's from now on, by the given lead.
func (c *Clock) Set(ahead time.Duration) {
	c.tb.Helper()
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0); err != nil {
		c.tb.Errorf("testenv: set a clock: %v", err)
	}
}
