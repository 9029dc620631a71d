package testenv_test

import (
	"errors"
	"io"
	"os"
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
	if _, err := h.LineWithin(time.Second); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	is(t, h.Log(), "ending")
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
