package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal bench shows its progress and erases it at the end, and the histogram fits.
func TestBench_terminal(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	if err := unix.IoctlSetWinsize(int(w.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}); err != nil {
		t.Fatal(err)
	}
	c := w.start(t, "memory:", "bench", "--time", "4s", "--clients", "2")
	eventually(t, "progress", w.shows("\rbench "))
	_ = c.Wait()
	eventually(t, "the end", w.shows("%\r\n\r\n"))
	text := w.shown()
	if code := c.ProcessState.ExitCode(); code != 0 || !strings.Contains(text, "\r\x1b[Kbench of memory: for 4s\r\n") {
		t.Errorf("%d %q", code, text)
	}
	drawn := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.Contains(line, "█") {
			continue
		}
		drawn = true
		if n := len([]rune(line)); n > 60 {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	if !drawn {
		t.Errorf("no histogram: %q", text)
	}
}

// Ctrl-C ends both commands at once. They leave nothing in the store but queue entries, which
// expire.
func TestLoad_interrupt(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"bench", "torture"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			store := sqliteStore(t)
			w := newTerminal(t)
			c := w.start(t, store, command, "--time", "60s")
			w.finds(t, `\r(`+command+`) [1-9]s of 1m0s: `)
			_, _ = w.master.Write([]byte{3})
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); code != 130 {
				t.Errorf("%d %q", code, w.shown())
			}
			ls := start(t, store, "ls", "distlock-"+command)
			if code := ls.code(t); code != 0 || strings.Contains(ls.out.String(), "held") {
				t.Errorf("%d %s", code, ls.out.String())
			}
		})
	}
}

// A command that puts load on a store on another host must be confirmed.
func TestLoad_confirms(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]int{"no\n": exitUsage, "yes\n": exitUnavailable} {
		w := newTerminal(t)
		c := w.start(t, "redis://:hunter22@distlock.invalid:1", "torture")
		eventually(t, "the question", w.shows("type yes to go on: "))
		_, _ = w.master.WriteString(typed)
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != want || w.shows("hunter22")() {
			t.Errorf("%q: %d %q", typed, code, w.shown())
		}
	}
}
