package main

import (
	"testing"
	"time"

	"github.com/distlock/distlock"
)

// heldBy prints no age for a lock of another program, because the age is not known. It says if such
// a lock has no expiry.
func TestHeldBy(t *testing.T) {
	for want, c := range map[string]distlock.Claim{
		"held by me for 1m30s (fence 7)":    {Holder: "me", Held: 90 * time.Second, Fence: 7},
		"held by me for 0s (fence 7)":       {Holder: "me", Fence: 7},
		"held by another for 0s":            {},
		"held by another client, no expiry": {Holder: "another client"},
		"held by another client":            {Holder: "another client", Left: time.Second},
		"held by ?[2J for 2s":               {Holder: "\x1b[2J", Held: 2 * time.Second},
	} {
		if got := heldBy(c); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
}
