//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// ended waits until the program ends by itself and returns its exit code. After 10 s it kills the
// program.
func (p *program) ended(t *testing.T) int {
	t.Helper()
	defer time.AfterFunc(10*time.Second, func() { _ = p.Process.Kill() }).Stop()
	return p.code(t)
}

// A candidate that has stepped down once ends with its command in a later term, as in the first
// term.
func TestElect_afterSteppingDown(t *testing.T) {
	t.Parallel()
	store, dir := sqliteStore(t), t.TempDir()
	up, down := filepath.Join(dir, "up"), filepath.Join(dir, "down")
	p := start(t, store, "elect", "--ttl", "10s", "a", "--", "sh", "-c",
		"test -e "+down+" && exit 7; trap 'echo >"+down+"; exit 0' TERM; echo >"+up+"; while :; do sleep 0.02; done")
	eventually(t, "the command runs", exists(up))
	if code := start(t, store, "elect", "--preferred", "a", "--", "sh", "-c", "exit 5").ended(t); code != 5 || !exists(down)() {
		t.Fatal("it did not step down:", code)
	}
	// The shell prints a line about its sleep.
	if code := p.ended(t); code != 7 || strings.Contains(p.err.String(), "distlock:") {
		t.Error(code, p.err.String())
	}
}

// A signal that arrives while a candidate waits is not forwarded to the command that it runs later.
func TestElect_signalWhileWaiting(t *testing.T) {
	t.Parallel()
	store, dir := sqliteStore(t), t.TempDir()
	up, end := filepath.Join(dir, "up"), filepath.Join(dir, "end")
	start(t, store, "elect", "a", "--", "sh", "-c", "echo >"+up+"; while ! test -e "+end+"; do sleep 0.02; done; exit 1")
	eventually(t, "the leader's command runs", exists(up))
	p := start(t, store, "elect", "a", "--", "sh", "-c", "sleep 0.2; exit 3")
	before := 0.0
	// The candidate is in the queue, and has renewed its entry since the last call.
	renewed := func() bool {
		ls := start(t, store, "ls", "--json", "a")
		ls.code(t)
		left := 0.0
		for line := range strings.Lines(ls.out.String()) {
			var c struct {
				Left    float64
				Waiting bool
			}
			if json.Unmarshal([]byte(line), &c) == nil && c.Waiting {
				left = c.Left
			}
		}
		more := left > before
		before = left
		return more
	}
	eventually(t, "it waits", renewed)
	_ = p.Process.Signal(syscall.SIGUSR1)
	eventually(t, "it still waits after the signal", renewed)
	if err := os.WriteFile(end, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.ended(t); code != 3 || p.err.Len() > 0 {
		t.Error(code, p.err.String())
	}
}

// A signal that arrives together with the election ends the campaign, and no command is started.
func TestElect_signalWithTheElection(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	synctest.Test(t, func(t *testing.T) {
		locker, err := distlock.New(mem.New())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locker.Close(t.Context()) }()
		election, err := locker.Election()
		if err != nil {
			t.Fatal(err)
		}
		e := &campaign{job: job{app: &app{}, onLost: "stop"}, argv: []string{"touch", ran}}
		e.ttl = 30 * time.Second
		e.sigs = make(chan os.Signal, 16)
		e.sigs <- syscall.SIGUSR1
		e.sigs <- syscall.SIGTERM
		ctx, cancel := context.WithCancelCause(t.Context())
		// ctx ends a moment after the signal.
		time.AfterFunc(time.Second, func() { cancel(signalError{syscall.SIGTERM}) })
		if code := exitCode(election.Run(ctx, "a", e.lead)); code != exitSignal+int(syscall.SIGTERM) {
			t.Error("it ends with", code)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Error("the command was started")
		}
	})
}
