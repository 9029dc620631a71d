package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slow returns a deed that takes d.
func slow(d time.Duration) deed {
	return func(ctx context.Context, _ int) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestRun_shortRound(t *testing.T) {
	for _, tt := range []struct {
		deed, round, want time.Duration
		count             float64
	}{
		{3 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, 6},
		{5 * time.Second, 20 * time.Millisecond, 5 * time.Second, 1}, // the first deed is waited for
		{time.Minute, 20 * time.Millisecond, 20*time.Millisecond + slowest, 0},
		{5 * time.Second, 2 * time.Second, 2 * time.Second, 0}, // a long round does not wait
	} {
		synctest.Test(t, func(t *testing.T) {
			got, took, err := run(t.Context(), slow(tt.deed), 1, tt.round)
			if err != nil || took != tt.want || got[0].Count != tt.count {
				t.Errorf("%v in %v: %v deeds in %v, %v; want %v in %v", tt.deed, tt.round, got[0].Count, took, err, tt.count, tt.want)
			}
			if _, err := sum(got, took); errors.Is(err, errNothing) != (tt.count == 0) {
				t.Errorf("%v deeds: %v", tt.count, err)
			}
		})
	}
}

func TestRun_error(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	tallies, _, err := run(t.Context(), func(context.Context, int) error {
		if n++; n <= 3 {
			return errFailed
		}
		return broken
	}, 1, time.Hour)
	if !errors.Is(err, broken) || tallies[0].failed != 3 {
		t.Errorf("%v after %v failures", err, tallies[0].failed)
	}
}
