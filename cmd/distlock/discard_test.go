package main

import (
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// A lock is free at once if the command was not started, even with --at-least.
func TestJob_discard(t *testing.T) {
	for _, atLeast := range []time.Duration{0, time.Hour} {
		l, err := distlock.New(mem.New())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		var opts []distlock.Option
		if atLeast > 0 {
			opts = append(opts, distlock.AtLeast(atLeast))
		}
		lease, err := l.Lock(t.Context(), "a", opts...)
		if err != nil {
			t.Fatal(err)
		}
		j := job{atLeast: atLeast}
		j.discard(t.Context(), l, lease)
		if _, err := l.TryLock(t.Context(), "a"); err != nil {
			t.Errorf("at least %v: %v", atLeast, err)
		}
	}
}
