package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// The time between TERM and KILL begins with the first reason to stop. A second reason may make it
// shorter, but never longer.
func TestKillTimer(t *testing.T) {
	for name, c := range map[string]struct{ second, want time.Duration }{
		"as long": {3 * time.Second, 3 * time.Second}, "shorter": {200 * time.Millisecond, 2700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k killTimer
				began := time.Now()
				k.start(3 * time.Second)
				time.Sleep(2500 * time.Millisecond)
				k.start(c.second)
				if <-k.expired; time.Since(began) != c.want {
					t.Errorf("it expired after %v, want %v", time.Since(began), c.want)
				}
			})
		})
	}
}
