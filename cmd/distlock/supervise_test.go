package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// The time to leave is counted from the first reason to stop. Another one may make it shorter, and never longer.
func TestFuse(t *testing.T) {
	for name, c := range map[string]struct{ second, want time.Duration }{
		"as long": {3 * time.Second, 3 * time.Second}, "shorter": {200 * time.Millisecond, 2700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f fuse
				began := time.Now()
				f.light(3 * time.Second)
				time.Sleep(2500 * time.Millisecond)
				f.light(c.second)
				if <-f.burnt; time.Since(began) != c.want {
					t.Errorf("it burnt for %v, want %v", time.Since(began), c.want)
				}
			})
		})
	}
}
