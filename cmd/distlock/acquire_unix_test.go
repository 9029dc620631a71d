//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// acquire releases the lock if nobody can read the handle.
func TestAcquire_closedPipe(t *testing.T) {
	t.Parallel()
	store := sqliteStore(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	var stderr bytes.Buffer
	c := exec.Command("distlock", "acquire", "a", "--ttl", "10m")
	c.Env = append(os.Environ(), "DISTLOCK_STORE="+store, "XDG_CONFIG_HOME="+t.TempDir())
	c.Stdout, c.Stderr = w, &stderr
	_ = c.Run()
	_ = w.Close()
	if code := c.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(stderr.String(), "the lock was released") {
		t.Error(c.ProcessState, stderr.String())
	}
	free(t, store, "a")
}
