//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// complete runs the program as the scripts of the shells do. It returns the names that the program
// offers, and how long the program took.
func complete(t *testing.T, store string, args ...string) ([]string, time.Duration) {
	t.Helper()
	watch := testenv.NewStopwatch(t)
	p := start(t, store, append([]string{"__complete"}, args...)...)
	if code := p.code(t); code != 0 {
		t.Fatalf("%d %s", code, p.err.String())
	}
	took := watch.Elapsed()
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, ":") {
		t.Fatalf("%q", lines)
	}
	if text := p.out.String() + p.err.String(); strings.Contains(text, "hunter22") {
		t.Errorf("the password is shown: %s", text)
	}
	return lines[:len(lines)-1], took
}

// offers fails the test unless completion offers these names within 20 s. It repeats the
// completion, because a store that needs more than completeLimit offers none.
func offers(t *testing.T, want []string, store string, args ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(20 * time.Second); len(got) == 0 && time.Now().Before(end); {
		got, _ = complete(t, store, args...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: %q, want %q", args, got, want)
	}
}

func TestComplete_names(t *testing.T) {
	store := sqliteStore(t)
	for _, name := range []string{"app/b", "app/a", "web", "with blank"} {
		if code := start(t, store, "acquire", name, "--ttl", "10m").code(t); code != 0 {
			t.Fatal(code)
		}
	}
	for _, command := range []string{"run", "acquire", "ls", "show", "wait", "break", "watch"} {
		offers(t, []string{"app/a", "app/b"}, store, command, "app/")
	}
	offers(t, []string{"app/a", "app/b", "web", "with blank"}, store, "run", "")
	offers(t, []string{"web", "with blank"}, store, "run", "--ttl", "1m", "w")
	if got, _ := complete(t, store, "run", "app/a", ""); len(got) > 0 {
		t.Errorf("for the command: %q, want none, so that the shell completes files", got)
	}
	if code := start(t, store, "limit", "app/rate", "--rate", "1/1h").code(t); code != 0 {
		t.Fatal(code)
	}
	offers(t, []string{"app/rate"}, store, "break", "--kind", "rate", "app/")
	if got, _ := complete(t, store, "wait", "--kind", ""); strings.Join(got, " ") != strings.Join(kinds, " ") {
		t.Errorf("kinds: %q", got)
	}
	if got, _ := complete(t, store, "completion", ""); strings.Join(got, " ") != "bash zsh fish" {
		t.Errorf("%q", got)
	}
}

// Completion offers no names and does not block if the store hangs, cannot be reached, or has a
// wrong URL.
func TestComplete_hangs(t *testing.T) {
	r := testenv.Redis(t, testenv.Password("hunter22"))
	url := "redis://:hunter22@" + r.Addr
	if code := start(t, url, "acquire", "deploy", "--ttl", "10m").code(t); code != 0 {
		t.Fatal(code)
	}
	// Another client writes these names.
	for _, name := range []string{"lock:bad\x1b[2Jname", "lock:two\nlines", "lock:tab\tbed"} {
		if _, err := r.Do(t.Context(), "SET", name, "x", "PX", "600000"); err != nil {
			t.Fatal(err)
		}
	}
	offers(t, []string{"deploy"}, url, "run", "")
	r.Pause()
	defer r.Resume()
	for _, store := range []string{
		url, "redis://:hunter22@127.0.0.1:1", "redis://:hunter22@192.0.2.1:6379", "reddis://:hunter22@h",
		"redlock://127.0.0.1:1,127.0.0.2:1," + r.Addr,
	} {
		_, plain := complete(t, "memory:", "run", "") // the time that the start of a process takes
		got, took := complete(t, store, "run", "")
		if len(got) > 0 {
			t.Errorf("%s: %q", store, got)
		}
		// Without the limit completion would take 5 s, and reconnecting would go on after that.
		if late := took - plain; late > completeLimit+2*time.Second {
			t.Errorf("%s: after %v", store, late)
		}
	}
}
