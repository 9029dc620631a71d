package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// shell runs an interactive shell on the terminal, with job control.
func (w *terminal) shell(t *testing.T, store string) {
	t.Helper()
	w.run(t, store, "sh", "-i")
	w.enter("PS1=; echo re''ady\n")
	eventually(t, "the shell", w.shows("ready"))
}

func (w *terminal) enter(s string) { _, _ = w.master.WriteString(s) }

// finds waits until the output matches a pattern, and returns the first group of the match.
func (w *terminal) finds(t *testing.T, pattern string) string {
	t.Helper()
	var found []string
	eventually(t, pattern, func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(w.shown())
		return found != nil
	})
	return found[1]
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// size returns the number of bytes that the child has written. A child that is stopped writes
// nothing.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// stopped fails the test if a file grows.
func stopped(t *testing.T, file string) {
	t.Helper()
	time.Sleep(50 * time.Millisecond) // for a write that had begun when the signal arrived
	before := size(file)
	time.Sleep(200 * time.Millisecond)
	if after := size(file); after != before {
		t.Error("the child runs while the job is stopped")
	}
}

// Ctrl-Z stops the command and distlock together, and fg continues both. The lock is held
// throughout. Ctrl-C ends the command.
func TestRun_terminal_stopped(t *testing.T) {
	t.Parallel()
	store, ticks := sqliteStore(t), filepath.Join(t.TempDir(), "ticks")
	w := newTerminal(t)
	w.shell(t, store)
	w.enter("distlock run a -c 'trap \"exit 7\" INT; while :; do echo x >>" + ticks + "; sleep 0.02; done'; echo \"co\"\"de $?\"\n")
	eventually(t, "the child runs", exists(ticks))
	w.enter(ctrlZ)
	eventually(t, "the job is stopped", w.shows("Stopped"))
	stopped(t, ticks)
	if rival := start(t, store, "run", "-n", "a", "true"); rival.code(t) != exitBusy {
		t.Error("the lock was released")
	}
	before := size(ticks)
	w.enter("fg; echo \"co\"\"de $?\"\n")
	eventually(t, "the child goes on", func() bool { return size(ticks) > before })
	w.enter(ctrlC)
	if code := w.finds(t, `code (\d+)\D[^c]*$`); code != "7" {
		t.Error("it ended with", code)
	}
	free(t, store, "a")
}

// A job that is stopped for longer than the TTL loses the lock, and ends after fg.
func TestRun_terminal_stoppedTooLong(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), sqliteStore(t)
	ticks, pid := filepath.Join(dir, "ticks"), filepath.Join(dir, "pid")
	w := newTerminal(t)
	w.shell(t, store)
	w.enter("distlock run --ttl 3s --grace 300ms a -c 'echo $$ >" + pid + "; while :; do echo x >>" + ticks + "; sleep 0.02; done'\n")
	eventually(t, "the child runs", exists(ticks))
	w.enter(ctrlZ)
	eventually(t, "the job is stopped", w.shows("Stopped"))
	if rival := start(t, store, "run", "a", "true"); rival.code(t) != 0 {
		t.Fatal("the rival:", rival.err.String())
	}
	w.enter("fg; echo \"co\"\"de $?\"\n")
	if code := w.finds(t, `code (\d+)\D`); code != fmt.Sprint(exitLost) {
		t.Error("it ended with", code)
	}
	eventually(t, "the child is gone", gone(number(t, pid)))
}

// On a terminal the command shares the process group of distlock. A loss ends the descendants of
// the command too, even one that ignores TERM and whose parent has ended. It ends no other process.
func TestRun_terminal_lost(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), sqliteStore(t)
	pid, mate := filepath.Join(dir, "pid"), filepath.Join(dir, "mate")
	w := newTerminal(t)
	w.shell(t, store)
	// The mate is the rest of a pipeline. It is in the same group, but no descendant of the
	// command.
	w.enter("distlock run --ttl 2s --grace 200ms a -c 'sh -c \"trap : TERM; echo \\$\\$ >" + pid +
		"; while :; do sleep 0.02; done\" & wait' | sh -c 'trap \"echo term >" + mate + "\" TERM; cat; echo \"ma\"\"te $?\"'\n")
	eventually(t, "the grandchild runs", exists(pid))
	if p := start(t, store, "break", "a", "--reason", "test", "--yes"); p.code(t) != 0 {
		t.Fatal(p.err.String())
	}
	eventually(t, "the message", w.shows("the lock was lost, the command was stopped"))
	eventually(t, "the grandchild is gone", gone(number(t, pid)))
	eventually(t, "the pipeline ends", w.shows("mate 0"))
	if exists(mate)() {
		t.Error("the rest of the pipeline was signalled")
	}
}

// On a dumb terminal run prints one line and does not rewrite it.
func TestRun_terminal_dumb(t *testing.T) {
	t.Parallel()
	store := sqliteStore(t)
	if code := start(t, store, "acquire", "deploy", "--holder", "ci-3", "--ttl", "1m").code(t); code != 0 {
		t.Fatal(code)
	}
	w := newTerminal(t)
	w.shell(t, store)
	w.enter("TERM=dumb NO_COLOR=1 distlock run -w 5s deploy true; echo \"co\"\"de $?\"\n")
	if code := w.finds(t, `code (\d+)\D`); code != fmt.Sprint(exitBusy) {
		t.Error("it ended with", code)
	}
	lines := regexp.MustCompile(`\nwaiting for deploy [0-9]s: held by ci-3 for `).FindAllString(w.shown(), -1)
	if len(lines) != 1 || strings.Count(w.shown(), "waiting for deploy") != 1 || w.shows("\x1b")() {
		t.Errorf("%q", w.shown())
	}
}
