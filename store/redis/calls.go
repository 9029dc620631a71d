package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// grace is how long [Calls.Do] waits after the end of ctx. Most calls end within it, and their
	// outcome is known. A call that is abandoned sooner might take effect after the caller has
	// cleaned up.
	grace = 50 * time.Millisecond

	// waitLimit is how long [Calls.Wait] waits. A call may block for as long as its client is open,
	// and the caller closes its client after the store.
	waitLimit = 5 * time.Second
)

// errClosed says that a call was not sent.
var errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)

// Calls runs calls of a client library that does not observe ctx. It is for implementations of
// [Client]. The zero value is ready for use.
type Calls struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // nil before Close; then closed when no call runs
}

// Do runs call in a goroutine and returns nil when call has returned. If ctx ends first, and call
// does not return within a short grace period, Do returns the cause of ctx. call then continues in
// the background, and its results must not be read. After [Calls.Close], Do returns a
// [driver.ErrUnavailable] and does not run call.
func (c *Calls) Do(ctx context.Context, call func()) error {
	if !c.begin() {
		return errClosed
	}
	if ctx.Done() == nil {
		defer c.end()
		call()
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer c.end()
		call()
		close(done)
	}()
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

// Close makes later calls of [Calls.Do] fail.
func (c *Calls) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		return
	}
	if c.idle = make(chan struct{}); c.running == 0 {
		close(c.idle)
	}
}

// Wait is called after [Calls.Close]. It blocks until all calls have returned, those in the
// background included, but for 5 s at most.
func (c *Calls) Wait() {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	select {
	case <-c.idle:
	case <-limit.C:
	}
}

// begin counts a call, and reports whether it may run.
func (c *Calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		return false
	}
	c.running++
	return true
}

// end uncounts a call.
func (c *Calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 && c.idle != nil {
		close(c.idle)
	}
}
