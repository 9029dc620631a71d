//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// complete asks the program as the shells' scripts do, and returns the names it offers and how long it took.
func complete(t *testing.T, store string, args ...string) ([]string, time.Duration) {
	t.Helper()
	began := time.Now()
	p := start(t, store, append([]string{"__complete"}, args...)...)
	if code := p.code(t); code != 0 {
		t.Fatalf("%d %s", code, p.err.String())
	}
	took := time.Since(began)
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, ":") {
		t.Fatalf("%q", lines)
	}
	if text := p.out.String() + p.err.String(); strings.Contains(text, "hunter22") {
		t.Errorf("the password is shown: %s", text)
	}
	return lines[:len(lines)-1], took
}

func TestComplete_names(t *testing.T) {
	store := sqliteStore(t)
	for _, name := range []string{"app/b", "app/a", "web", "with blank"} {
		if code := start(t, store, "acquire", name).code(t); code != 0 {
			t.Fatal(code)
		}
	}
	for _, command := range []string{"run", "acquire", "ls", "show", "wait", "break", "watch"} {
		if got, _ := complete(t, store, command, "app/"); strings.Join(got, " ") != "app/a app/b" {
			t.Errorf("%s: %q", command, got)
		}
	}
	if got, _ := complete(t, store, "run", ""); strings.Join(got, ", ") != "app/a, app/b, web, with blank" {
		t.Errorf("%q", got)
	}
	if got, _ := complete(t, store, "run", "--ttl", "1m", "w"); strings.Join(got, ", ") != "web, with blank" {
		t.Errorf("after a flag: %q", got)
	}
	if got, _ := complete(t, store, "run", "app/a", ""); len(got) > 0 {
		t.Errorf("for the command: %q, want what the shell knows", got)
	}
	if code := start(t, store, "limit", "app/rate", "--rate", "1/1h").code(t); code != 0 {
		t.Fatal(code)
	}
	if got, _ := complete(t, store, "break", "--kind", "rate", "app/"); strings.Join(got, " ") != "app/rate" {
		t.Errorf("rate limits: %q", got)
	}
	if got, _ := complete(t, store, "wait", "--kind", ""); strings.Join(got, " ") != strings.Join(kinds, " ") {
		t.Errorf("kinds: %q", got)
	}
	if got, _ := complete(t, store, "completion", ""); strings.Join(got, " ") != "bash zsh fish" {
		t.Errorf("%q", got)
	}
}

// A store that hangs, is away, or is named wrongly offers none, and keeps nobody waiting.
func TestComplete_hangs(t *testing.T) {
	r := testenv.Redis(t, testenv.Password("hunter22"))
	url := "redis://:hunter22@" + r.Addr
	if code := start(t, url, "acquire", "deploy").code(t); code != 0 {
		t.Fatal(code)
	}
	for _, name := range []string{"lock:bad\x1b[2Jname", "lock:two\nlines", "lock:tab\tbed"} { // of another client
		if _, err := r.Do(t.Context(), "SET", name, "x", "PX", "60000"); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := complete(t, url, "run", ""); strings.Join(got, " ") != "deploy" {
		t.Errorf("%q", got)
	}
	r.Pause()
	defer r.Resume()
	for _, store := range []string{url, "redis://:hunter22@127.0.0.1:1", "redis://:hunter22@192.0.2.1:6379", "reddis://:hunter22@h", "redlock://127.0.0.1:1,127.0.0.2:1," + r.Addr} {
		_, plain := complete(t, "memory:", "run", "") // to start a process takes its time, too
		got, took := complete(t, store, "run", "")
		if len(got) > 0 {
			t.Errorf("%s: %q", store, got)
		}
		// Without the limit it would be 5 s, and to connect anew would go on behind it.
		if late := took - plain; late > completeLimit+time.Second {
			t.Errorf("%s: after %v", store, late)
		}
	}
}
