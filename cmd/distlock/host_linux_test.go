package main

import "testing"

// The confirmation for a store on another host names the store and shows no password, even if the
// password contains special characters.
func TestBench_terminal_confirms(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis://u:top&hunter2@192.0.2.1/0", "redis://u:top'hunter2@192.0.2.1/0"} {
		w := newTerminal(t)
		c := w.start(t, store, "bench")
		eventually(t, "the question", w.shows("type yes to go on"))
		_, _ = w.master.WriteString("no\n")
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != exitUsage || w.shows("hunter2")() || !w.shows("192.0.2.1")() {
			t.Errorf("%s: %d %q", store, code, w.shown())
		}
	}
}
