package testenv

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	beat  = 5 * time.Millisecond  // how often a Stopwatch looks
	stall = 25 * time.Millisecond // with more than this between two looks, the machine ran others
)

// A Stopwatch measures how long something took, without the time in which the machine did not run this process. So a bound of time is one
// of what distlock and its server do, and not of what else a busy machine does.
type Stopwatch struct {
	began time.Time

	mu   sync.Mutex
	last time.Time     // of the last look
	lost time.Duration // in which the process did not run, before the last look
}

// NewStopwatch starts a stopwatch. It runs until the test ends.
func NewStopwatch(t testing.TB) *Stopwatch {
	now := time.Now()
	w := &Stopwatch{began: now, last: now}
	t.Cleanup(beats(func(now time.Time) { w.look(now) }))
	return w
}

// Elapsed returns the time since the start in which the process ran.
func (w *Stopwatch) Elapsed() time.Duration { return w.look(time.Now()) }

func (w *Stopwatch) look(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gap := now.Sub(w.last); gap > stall {
		w.lost += gap - beat
	}
	w.last = now
	return now.Sub(w.began) - w.lost
}

// Stalls tells of each time of more than least in which the machine did not run this process, until the function that it returns was called. Nobody can be
// told anything then, and no lock can help it.
func Stalls(least time.Duration, told func(from, to time.Time)) (stop func()) {
	last := time.Now()
	return beats(func(now time.Time) {
		if now.Sub(last) > least {
			told(last, now)
		}
		last = now
	})
}

// beats looks every few milliseconds, until the function that it returns was called.
func beats(look func(now time.Time)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		ticks := time.NewTicker(beat)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				look(time.Now())
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
