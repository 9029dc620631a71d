package queue

import (
	"context"
	"time"
)

// undoGrace is how long a call waits for what it undoes after its ctx has ended. A store that is
// near answers in less, and then the error is definite. A call returns within 20 ms of the end of
// its ctx.
const undoGrace = 12 * time.Millisecond

// Grace returns a function for Behind: how much longer c may wait for what it undoes. The function
// is called after the end of the ctx of c.
func (m *Manager) Grace(c *Call) func() time.Duration {
	return func() time.Duration {
		now := m.clock.Awake()
		if c.late == 0 {
			c.late = now + undoGrace
		}
		return max(0, c.late-now)
	}
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

// Behind runs f in a goroutine and returns its error, or ErrNoAnswer if ctx ends first: see await.
// Then f continues behind the call, and Close waits for it. f must end by itself. If f panics, the
// panic continues in the caller as long as that waits. The caller has to be counted: see Enter.
func (m *Manager) Behind(ctx context.Context, grace func() time.Duration, f func() error) error {
	type result struct {
		err   error
		panic any
	}
	done := make(chan result, 1)
	m.wg.Go(func() {
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
		return ErrNoAnswer
	case r.panic != nil:
		panic(r.panic)
	}
	return r.err
}
