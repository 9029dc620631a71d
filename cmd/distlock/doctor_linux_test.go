package main

import (
	"strings"
	"testing"
)

// On a terminal, levels have colours and lines are wrapped at the edge. NO_COLOR turns the colours
// off.
func TestDoctor_terminal(t *testing.T) {
	w := newTerminal(t)
	c := w.start(t, "memory:", "doctor")
	eventually(t, "the end", w.shows("endangers locks: 0"))
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if !w.shows("\x1b[33mwarning\x1b[0m  claims are kept")() || !w.shows("\x1b[32mok\x1b[0m       a lock was acquired")() {
		t.Error("no colours")
	}
	text := w.shown()
	for line := range strings.Lines(text) {
		if len(line) > 100 { // 80 columns, the colours and the end of the line
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
	t.Setenv("NO_COLOR", "1")
	w = newTerminal(t)
	w.start(t, sqliteStore(t), "doctor")
	eventually(t, "the end", w.shows("endangers locks: 0"))
	if w.shows("\x1b")() {
		t.Error("colours with NO_COLOR")
	}
}
