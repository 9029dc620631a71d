package redis

import (
	"context"
	"sync"
	"time"
)

// grace is how long [Calls.Do] waits after the end of ctx. Most calls end within it, and their
// outcome is known. A call that is abandoned sooner might take effect after the caller has cleaned
// up.
const grace = 50 * time.Millisecond

// Calls runs calls of a client library that does not observe ctx. It is for implementations of
// [Client]. The zero value is ready for use.
type Calls struct{ wg sync.WaitGroup }

// Do runs call in a goroutine and returns nil when call has returned. If ctx ends first, and call
// does not return within a short grace period, Do returns the cause of ctx. call then continues in
// the background, and its results must not be read.
func (c *Calls) Do(ctx context.Context, call func()) error {
	if ctx.Done() == nil {
		call()
		return nil
	}
	done := make(chan struct{})
	c.wg.Go(func() {
		call()
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-late.C:
		return context.Cause(ctx)
	}
}

// Wait blocks until the calls that continue in the background have returned.
func (c *Calls) Wait() { c.wg.Wait() }
