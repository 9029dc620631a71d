//go:build unix

package testenv_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Children end by the signals that the test process itself was started to ignore.
func TestRunner_ignoredSignals(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT} {
		cmd := exec.Command("sh", "-c", "ulimit -c 0; kill -s "+name+" $$")
		_ = cmd.Run()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != want {
			t.Errorf("SIG%s: a child ended with %v", name, cmd.ProcessState)
		}
	}
	const inner = "DISTLOCK_TEST_IGNORED"
	if os.Getenv(inner) != "" {
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap '' HUP INT QUIT; exec "$0" -test.run="^$1\$"`, program, t.Name())
	cmd.Env = append(os.Environ(), inner+"=yes")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("with the signals ignored: %v\n%s", err, out)
	}
}
