package main

import (
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// A lock is free at once if the command was not started, even with --min-hold.
func TestJob_discard(t *testing.T) {
	for _, minHold := range []time.Duration{0, time.Hour} {
		l, err := distlock.New(mem.New())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		var opts []distlock.Option
		if minHold > 0 {
			opts = append(opts, distlock.MinHold(minHold))
		}
		lease, err := l.Lock(t.Context(), "a", opts...)
		if err != nil {
			t.Fatal(err)
		}
		j := job{minHold: minHold}
		j.discard(t.Context(), l, lease)
		if _, err := l.TryLock(t.Context(), "a"); err != nil {
			t.Errorf("at least %v: %v", minHold, err)
		}
	}
}
