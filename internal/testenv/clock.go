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

// clockVariable names the file of the offset to the library.
const clockVariable = "DISTLOCK_TEST_CLOCK"

// A Clock is the time of day of some servers, which a test sets while they run. Other clocks go on as they are: what a
// server counts by a monotonic clock is not touched, nor is the clock of the machine.
type Clock struct {
	tb   testing.TB
	file *os.File
}

// NewClock takes over the time of day of servers that the test started. They are restarted, with their data if they
// keep any. It needs Linux and a C compiler.
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

// Set makes the servers' time of day differ from the machine's from now on, by so much ahead.
func (c *Clock) Set(ahead time.Duration) {
	c.tb.Helper()
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0); err != nil {
		c.tb.Errorf("testenv: set a clock: %v", err)
	}
}
