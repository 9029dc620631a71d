package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// preload restarts servers with a library that is loaded before the C library, and with environment
// variables for it. The name is that of the library's source. It needs Linux and a C compiler. A
// server has one such library at a time.
func preload(t testing.TB, name string, source []byte, servers []*Server, env ...string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		Missing(t, "library that stands between a server and the machine", "run this test on Linux")
	}
	cc, err := find("cc", "apt-get install gcc libc6-dev")
	check(t, err)
	text := servers[0].path(name)
	check(t, os.WriteFile(text, source, 0o600))
	library := strings.TrimSuffix(text, filepath.Ext(text)) + ".so"
	if out, err := exec.Command(cc, "-O2", "-shared", "-fPIC", "-o", library, text).CombinedOutput(); err != nil {
		t.Fatalf("testenv: %s: %v\n%s", cc, err, out)
	}
	// Servers may run as another user.
	check(t, os.Chmod(library, 0o755))
	for _, s := range servers {
		s.mu.Lock()
		was := s.plan.cmd
		s.plan.cmd = func() *exec.Cmd {
			cmd := was()
			cmd.Env = append(append(cmd.Environ(), "LD_PRELOAD="+library), env...)
			return cmd
		}
		s.mu.Unlock()
		s.Restart()
	}
}
