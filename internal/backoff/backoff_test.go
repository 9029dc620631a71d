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
		math.MinInt: 2 * first, 0: 2 * first, 1: 2 * first, 2: 4 * first, 3: 8 * first,
		6: 64 * first, 7: most, 1000: most, math.MaxInt: most,
	} {
		longest := time.Duration(0)
		for range 100 {
			d := backoff.Pause(n, first, most)
			if longest = max(longest, d); d < first || d > want {
				t.Fatalf("after %d attempts: %v, want %v to %v", n, d, first, want)
			}
		}
		if longest < want/2+first/2 {
			t.Errorf("after %d attempts: at most %v in 100 pauses up to %v", n, longest, want)
		}
	}
}

func TestPause_equalBoundsAreExact(t *testing.T) {
	t.Parallel()
	for n := range 10 {
		if d := backoff.Pause(n, time.Second, time.Second); d != time.Second {
			t.Errorf("after %d attempts: %v", n, d)
		}
	}
}

func TestPause_doesNotOverflow(t *testing.T) {
	t.Parallel()
	if d := backoff.Pause(200, 3, math.MaxInt64); d < 3 {
		t.Errorf("got %v", d)
	}
	if d := backoff.Pause(1, time.Hour, time.Second); d > time.Second {
		t.Errorf("a shortest pause above the longest gives %v", d)
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
