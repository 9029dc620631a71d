package main

import (
	"encoding/json"
	"testing"

	"github.com/distlock/distlock/dashboard"
	"github.com/distlock/distlock/server"
)

// Entries about breaks stay when many others came after them, and no entry is there twice.
func TestLatest_breaks(t *testing.T) {
	var l latest
	write := func(verb string) {
		line, err := json.Marshal(server.Entry{Verb: verb})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		write("break")
	}
	for range maxLatest {
		write("acquire")
	}
	write("break")
	breaks := func(e dashboard.AuditEntry) bool { return e.Verb == "break" }
	if n := len(l.entries(50, breaks)); n != 4 {
		t.Errorf("%d entries about breaks, want 4", n)
	}
	for range 2 * maxBreaks {
		write("break")
	}
	for range maxLatest {
		write("acquire")
	}
	if n := len(l.entries(2*maxLatest, breaks)); n != maxBreaks {
		t.Errorf("%d entries about breaks, want %d", n, maxBreaks)
	}
	if n := len(l.entries(10, breaks)); n != 10 {
		t.Errorf("%d entries, want 10", n)
	}
}
