package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// CallLimit bounds every single call of the store, so that a store that never answers holds up
	// nothing for longer. The trust that an answer would bring bounds it too.
	CallLimit = 5 * time.Second

	// limitSlack is how much less than CallLimit a call may get, so that calls of about the same
	// time share one limit.
	limitSlack = 500 * time.Millisecond

	// withdrawLimit bounds a withdrawal: the caller wants to leave, and what it leaves behind ends
	// by itself.
	withdrawLimit = time.Second

	// undoGrace is how long a call waits for what it undoes after its ctx has ended. A store that
	// is near answers in less, and then the error is definite. A call returns within 20 ms of the
	// end of its ctx.
	undoGrace = 12 * time.Millisecond
)

// NewOwner returns the secret of one claim.
func NewOwner() string { return rand.Text() }

// acquire makes one attempt. It returns when the request was sent: trust counts from then on.
func (m *Manager) acquire(ctx context.Context, c *Call, r driver.Request) (res driver.Result, sent time.Duration, err error) {
	call, cancel := m.Call(ctx, c.limit())
	defer cancel()
	began := m.clock.Awake()
	sent = m.clock.Now()
	res, err = m.store.Acquire(call, r)
	c.event(ctx, Event{Type: Attempted, Fence: res.Fence, Took: m.clock.Awake() - began, Behind: res.Behind, Err: err})
	return res, sent, err
}

// withdraw removes a queue entry, and releases a claim that may have been granted unseen. It is
// made although ctx has ended: then it is needed most.
func (m *Manager) withdraw(ctx context.Context, c *Call, id driver.ID) error {
	call, cancel := m.lastCall(ctx, min(withdrawLimit, c.limit()), new(limited))
	defer cancel()
	err := m.store.Release(call, id)
	if errors.Is(err, driver.ErrNotHeld) {
		err = nil // there was nothing
	}
	c.event(ctx, Event{Type: Withdrawn, Err: err})
	return err
}

// undo is withdraw for a call that has to return soon after the end of ctx. What is not undone by
// then is undone behind the call, and the error says that the outcome is unknown.
func (m *Manager) undo(ctx context.Context, c *Call, id driver.ID) error {
	return m.Behind(ctx, m.Grace(c), func() error { return m.withdraw(ctx, c, id) })
}

// A sharedLimit is a context that ends after CallLimit, or a little earlier. A context and a timer
// for every call would be half of the cost of a lock.
type sharedLimit struct {
	context.Context
	last time.Time // until when new calls use it
}

// Call returns a context for one call of the store. It ends with ctx, and after limit.
func (m *Manager) Call(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit < CallLimit || ctx.Done() != nil {
		c := newLazyLimit(ctx, limit)
		if limit >= CallLimit {
			c.share(m.limit())
		}
		return c, c.end
	}
	return m.lastCall(ctx, limit, new(limited))
}

// lastCall returns a context for a call that is made although ctx has ended. It ends after limit.
// It may be made in mem.
func (m *Manager) lastCall(ctx context.Context, limit time.Duration, mem *limited) (context.Context, context.CancelFunc) {
	if limit < CallLimit {
		return context.WithTimeout(context.WithoutCancel(ctx), limit)
	}
	mem.Context, mem.values = m.limit(), ctx
	return mem, func() {}
}

// limit returns the limit of calls that begin now.
func (m *Manager) limit() context.Context {
	now := time.Now()
	if s := m.limits.Load(); s != nil && now.Before(s.last) {
		return s
	}
	s := &sharedLimit{last: now.Add(limitSlack)}
	var cancel context.CancelFunc
	//nolint:gosec // it is never called: the deadline ends it
	s.Context, cancel = context.WithDeadline(context.Background(), now.Add(CallLimit))
	_ = cancel        // calls that began before the next limit may use this one to its end
	m.limits.Store(s) // two calls may both store one: the surplus one ends by itself too
	return s
}

// limited is a context with the end of one context and the values of another.
type limited struct {
	context.Context
	values context.Context
}

// Value finds what the caller's context carries, a span for instance. The keys of package context
// itself are those of the limit.
func (c *limited) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

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

// lazyLimit is a context with a timeout. It has no timer, and its parent does not know of it, until
// a store waits for Done. A store that only reads the deadline, as a client of a connection does,
// or waits for Ends, needs neither: they take as long as the rest of a Lock without its two round
// trips.
type lazyLimit struct {
	context.Context // the parent
	ends            time.Time
	shared          <-chan struct{} // closed at ends, unless the parent ends before; nil: there is none

	mu     sync.Mutex
	full   context.Context // the usual context with this deadline; nil: nobody waits
	cancel context.CancelFunc
	ended  bool // the call has ended
}

func newLazyLimit(parent context.Context, limit time.Duration) *lazyLimit {
	c := &lazyLimit{Context: parent, ends: time.Now().Add(limit)}
	if d, ok := parent.Deadline(); ok && d.Before(c.ends) {
		c.ends = d
	}
	return c
}

// share makes c end with a limit that calls of about the same time share, if that is earlier.
func (c *lazyLimit) share(limit context.Context) {
	if d, _ := limit.Deadline(); d.Before(c.ends) {
		c.ends = d
	}
	c.shared = limit.Done()
}

// Ends returns two channels, and c has ended when one of them is closed. A store that waits for
// both needs no timer, and the parent need not know of c: many goroutines may have one parent.
func (c *lazyLimit) Ends() (parent, limit <-chan struct{}) {
	if c.shared == nil {
		return c.Done(), nil
	}
	return c.Context.Done(), c.shared
}

// whole returns the usual context.
func (c *lazyLimit) whole() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full == nil {
		c.full, c.cancel = context.WithDeadline(c.Context, c.ends)
		if c.ended {
			c.cancel()
		}
	}
	return c.full
}

// end ends the context.
func (c *lazyLimit) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// waited reports whether the usual context says more than the parent and the clock.
func (c *lazyLimit) waited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full != nil || c.ended || !time.Now().Before(c.ends)
}

func (c *lazyLimit) Deadline() (time.Time, bool) { return c.ends, true }

func (c *lazyLimit) Done() <-chan struct{} { return c.whole().Done() }

func (c *lazyLimit) Err() error {
	if c.waited() {
		return c.whole().Err()
	}
	return c.Context.Err()
}

// Value also finds the context that package context looks for.
func (c *lazyLimit) Value(key any) any {
	if c.waited() {
		return c.whole().Value(key)
	}
	return c.Context.Value(key)
}
