package testenv

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	beat  = 5 * time.Millisecond  // the period of a Stopwatch's checks
	stall = 25 * time.Millisecond // a longer gap between two checks is a scheduler stall
)

// A Stopwatch measures how long something took, without the time in which the machine did not run
// this process. A time bound then measures distlock and its server, and not the other load of a
// busy machine.
type Stopwatch struct {
	began time.Time

	mu   sync.Mutex
	last time.Time     // time of the last check
	lost time.Duration // time in which the process did not run, before the last check
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

// Stalls calls report for each period longer than least in which the machine did not run this
// process, until the returned function is called. In such a period nothing can be notified, and no
// lock can change that.
func Stalls(least time.Duration, report func(from, to time.Time)) (stop func()) {
	last := time.Now()
	return beats(func(now time.Time) {
		if now.Sub(last) > least {
			report(last, now)
		}
		last = now
	})
}

// beats calls look every few milliseconds, until the returned function is called.
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
