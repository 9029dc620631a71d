package testenv

import (
	_ "embed" // the library that servers are started with
	"encoding/binary"
	"os"
	"os/exec"
	"runtime"
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
	if runtime.GOOS != "linux" {
		Missing(t, "library that sets the time of day of a server", "run this test on Linux")
	}
	cc, err := find("cc", "apt-get install gcc libc6-dev")
	check(t, err)
	first := servers[0]
	source, library := first.path("clock.c"), first.path("clock.so")
	check(t, os.WriteFile(source, clockSource, 0o600))
	if out, err := exec.Command(cc, "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("testenv: %s: %v\n%s", cc, err, out)
	}
	// Servers may run as another user.
	check(t, os.Chmod(library, 0o755))
	c := &Clock{tb: t}
	c.file, err = os.OpenFile(first.path("clock"), os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	check(t, c.file.Chmod(0o644))
	t.Cleanup(func() { c.file.Close() })
	c.Set(0)
	for _, s := range servers {
		s.mu.Lock()
		was := s.plan.cmd
		s.plan.cmd = func() *exec.Cmd {
			cmd := was()
			cmd.Env = append(cmd.Environ(), "LD_PRELOAD="+library, clockVariable+"="+c.file.Name())
			return cmd
		}
		s.mu.Unlock()
		s.Restart()
	}
	return c
}

// Set makes the servers' time of day differ from the machine's from now on, by so much ahead.
func (c *Clock) Set(ahead time.Duration) {
	c.tb.Helper()
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0); err != nil {
		c.tb.Errorf("testenv: set a clock: %v", err)
	}
}
