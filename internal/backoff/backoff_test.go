package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/backoff"
)

func TestPause_doublesUpToMost(t *testing.T) {
	t.Parallel()
	const first, most = 10 * time.Millisecond, time.Second
	for n, want := range map[int]time.Duration{
		math.MinInt: first, 0: first, 1: first, 2: 2 * first, 3: 4 * first,
		7: 64 * first, 8: most, 1000: most, math.MaxInt: most,
	} {
		for range 100 {
			if d := backoff.Pause(n, first, most); d < want/2 || d > want {
				t.Fatalf("after %d tries: %v, want %v to %v", n, d, want/2, want)
			}
		}
	}
}

func TestPause_doesNotOverflow(t *testing.T) {
	t.Parallel()
	if d := backoff.Pause(200, 3, math.MaxInt64); d < math.MaxInt64/2 {
		t.Errorf("got %v", d)
	}
	if d := backoff.Pause(1, time.Hour, time.Second); d > time.Second {
		t.Errorf("a first pause above the most gives %v", d)
	}
}

func TestJitter_spreads(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[backoff.Jitter(time.Second)] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 calls gave %d different pauses", len(seen))
	}
	if d := backoff.Jitter(0); d != 0 {
		t.Errorf("Jitter(0) = %v", d)
	}
}
