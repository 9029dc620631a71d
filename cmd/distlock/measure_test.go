package main

import (
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// count counts at least one pair, even if the time ends before the first pair is done.
func TestMeasure_count_once(t *testing.T) {
	t.Parallel()
	l, err := distlock.New(mem.New())
	if err != nil {
		t.Fatal(err)
	}
	m := &measure{clients: 3}
	got, err := m.count(t.Context(), time.Now(),
		func(int) *distlock.Locker { return l }, func(int) string { return "a" })
	if err != nil || got.Count < 1 || got.PerSecond <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
