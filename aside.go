package distlock

import (
	"context"
	"time"
)

// How long a call waits for what it undoes after its ctx has ended. A store that is near answers
// in less, and the error is definite then. A call returns within 20 ms of the end of its ctx.
const (
	undoGrace = 12 * time.Millisecond // for all that one request undoes
	setGrace  = 5 * time.Millisecond  // for what is undone after that, because another lock of a set was not acquired
)

// grace returns how much longer r may wait for what it undoes. It is called after the end of its
// ctx.
func (r *request) grace(now time.Duration) time.Duration {
	if r.undone == 0 {
		r.undone = now + undoGrace
	}
	return max(0, r.undone-now)
}

// graceOf returns the grace of r, for await.
func (l *Locker) graceOf(r *request) func() time.Duration {
	return func() time.Duration { return r.grace(l.clock.Awake()) }
}

// await waits for done, for limit at most, and not longer than grace says after the end of ctx. It
// reports whether done was ready.
func await[T any](ctx context.Context, done <-chan T, limit time.Duration, grace func() time.Duration) (v T, ok bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v = <-done:
		return v, true
	case <-timer.C:
		return v, false
	case <-ctx.Done():
	}
	timer.Reset(min(limit, grace()))
	select {
	case v = <-done:
		return v, true
	case <-timer.C:
		return v, false
	}
}

// aside runs f in a goroutine and returns its error, or errNoAnswer if ctx ends first: see await.
// Then f goes on, and Close waits for it. f must end by itself. If an observer panics in f, the
// panic goes on in the caller as long as it waits. The caller is counted by l.wg.
func (l *Locker) aside(ctx context.Context, grace func() time.Duration, f func() error) error {
	type result struct {
		err   error
		panic any
	}
	done := make(chan result, 1)
	l.wg.Go(func() {
		var r result
		defer func() {
			r.panic = recover()
			done <- r
		}()
		r.err = f()
	})
	r, ok := await(ctx, done, time.Hour, grace)
	switch {
	case !ok:
		return errNoAnswer
	case r.panic != nil:
		panic(r.panic)
	}
	return r.err
}

// enter has Close wait until leave is called. It does nothing if the Locker is closed: the Close
// that has begun ends all leases itself.
func (l *Locker) enter() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.wg.Add(1)
	return l.wg.Done
}
