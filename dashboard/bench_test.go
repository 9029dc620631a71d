package dashboard

import (
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// BenchmarkRecorder measures what a Recorder adds to an Acquire and a Release.
func BenchmarkRecorder(b *testing.B) {
	for name, s := range map[string]driver.Store{"store": mem.New(), "recorder": NewRecorder(mem.New())} {
		b.Run(name, func(b *testing.B) {
			r := driver.Request{ID: driver.ID{Key: "k", Owner: "owner"}, Weight: 1, Limit: driver.Whole, TTL: time.Minute, Holder: "h"}
			for b.Loop() {
				if _, err := s.Acquire(b.Context(), r); err != nil {
					b.Fatal(err)
				}
				if err := s.Release(b.Context(), r.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
