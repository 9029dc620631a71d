package testenv_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

func TestHelper(t *testing.T) {
	t.Parallel()
	h := testenv.Helper(t, "echo", "a", "b c")
	is(t, h.Line(), "ready [a b c]")
	h.Say("one")
	is(t, h.Line(), "heard one")
	h.Say("end")
	is(t, h.Wait(), 7)
	if _, err := h.LineWithin(10 * time.Second); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	is(t, h.Log(), "ending")
}

// A password in the arguments of a helper is not in the process list. A process whose command
// line would contain it is not started.
func TestHelper_secret(t *testing.T) {
	t.Parallel()
	secret := "redis://u:" + testenv.Canary + "@h"
	h := testenv.Helper(t, "echo", secret, "two\nlines")
	is(t, h.Line(), "ready ["+secret+" two")
	is(t, h.Line(), "lines]")
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.PID())); err == nil && len(testenv.Leaks(string(cmdline), testenv.Canary)) > 0 {
		t.Error("the process list shows the password")
	} else if err != nil && runtime.GOOS == "linux" {
		t.Error(err)
	}
	if _, err := testenv.Actor(nil, "echo", "x", secret); err == nil || len(testenv.Leaks(err.Error(), testenv.Canary)) > 0 {
		t.Errorf("an actor with a password in its arguments: %v", err)
	}
}

func TestHelper_pause(t *testing.T) {
	t.Parallel()
	h := testenv.Helper(t, "echo")
	is(t, h.Line(), "ready []")
	h.Pause()
	h.Say("one")
	if line, err := h.LineWithin(200 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("paused, it said %q, %v", line, err)
	}
	h.Resume()
	is(t, h.Line(), "heard one")
	h.Kill()
	is(t, h.Wait(), -1)
}

func TestHelper_unknownRole(t *testing.T) {
	t.Parallel()
	h := testenv.Helper(t, "nobody")
	is(t, h.Wait(), 64)
	if !strings.Contains(h.Log(), `no role "nobody"`) {
		t.Errorf("the log is %q", h.Log())
	}
}
