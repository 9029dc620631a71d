package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
)

// A Waiter is a call that waits.
type Waiter struct {
	m     *Manager
	k     *key
	call  *Call
	ready chan struct{} // closed when lease or refusal is set

	lease   *Lease
	refusal *refusal
	left    chan error // with refusal: notified when nothing of the call is left in the store, or why something may be; nil: nothing is

	attempts int           // that the store refused, or failed
	next     time.Duration // when the next one is due, if they are paced
	first    bool          // the runner makes the first attempt of the call: an error of the store ends the wait
}

// A refusal is why a wait ended without a claim.
type refusal struct {
	held   *Held                 // who holds the key
	failed *failure              // what is wrong with the store
	err    error                 // any other reason
	cause  error                 // why the ctx of the call ended
	wrap   func(err error) error // see Waiter.Fail
}

// error returns r as the caller sees it.
func (r *refusal) error(c *Call) error {
	err := r.err
	switch {
	case r.held != nil && r.failed != nil:
		err = errors.Join(c.Caller.Held(*r.held), r.failed.error(c))
	case r.held != nil:
		err = c.Caller.Held(*r.held)
	case r.failed != nil:
		err = r.failed.error(c)
	}
	if r.cause != nil {
		err = withCause(err, r.cause)
	}
	if r.wrap != nil {
		err = r.wrap(err)
	}
	return err
}

// enqueueLocked puts w in the queue, or ends its wait at once.
func (m *Manager) enqueueLocked(k *key, w *Waiter) {
	w.m, w.k, w.ready = m, k, make(chan struct{})
	if err := w.call.TooHeavy(); err != nil { // since a resize, which came after the call and before this
		w.refusal = &refusal{err: err}
		close(w.ready)
	} else if w.attempts == 0 && !w.first && w.refused(m.clock.Awake()) {
		why := k.blockedLocked(len(k.waiters))
		w.refusal = &why
		close(w.ready)
	} else {
		at, _ := slices.BinarySearchFunc(k.waiters, w.call.seq, func(x *Waiter, seq uint64) int { return cmp.Compare(x.call.seq, seq) })
		k.waiters = slices.Insert(k.waiters, at, w)
	}
	m.reconcileLocked(k)
}

// await waits until w, which is in the queue, gets its lease or fails.
func (m *Manager) await(ctx context.Context, k *key, w *Waiter) (*Lease, error) {
	c := w.call
	began, ended := w.begin(ctx)
	if c.MaxAttempts > 0 {
		m.retry(ctx, k, w)
	} else {
		select {
		case <-w.ready:
		case <-ctx.Done():
			m.detach(ctx, k, w)
		}
	}
	if ended != nil {
		if removed := ended(); removed != nil { // notices that stay end by themselves
			_, _ = await(ctx, removed, 2*withdrawLimit, m.Grace(c))
		}
	}
	if w.refusal == nil {
		return m.welcome(ctx, w.lease, Event{Wait: max(0, w.lease.since-began), Waited: true}), nil
	}
	err := w.undone(ctx)
	now := m.clock.Awake()
	c.event(ctx, Event{Type: Refused, Took: now - c.Began, Wait: now - began, Waited: true, Err: err})
	return nil, err
}

// begin reports that w waits. It returns when the wait began, and what to call when it has ended.
func (w *Waiter) begin(ctx context.Context) (began time.Duration, ended func() <-chan struct{}) {
	reported := false
	defer func() {
		if !reported { // the caller panicked
			w.m.detach(ctx, w.k, w)
			if w.lease != nil {
				w.lease.unless(ctx, &reported)
			}
		}
	}()
	if w.call.Observed { // else nobody needs the time
		began = w.m.clock.Awake()
		w.call.event(ctx, Event{Type: Waiting})
	}
	ended = w.call.Caller.Waits(ctx, w)
	reported = true
	return began, ended
}

// undone returns why the wait failed, when nothing of the call is left in the store. It waits for
// that for withdrawLimit at most, and for the grace of the call after the end of ctx. The runner
// continues behind the call, and the error says that something may be left.
func (w *Waiter) undone(ctx context.Context) error {
	c, why := w.call, w.refusal
	if w.left == nil {
		return why.error(c)
	}
	left, ok := await(ctx, w.left, withdrawLimit, w.m.Grace(c))
	if !ok {
		left = ErrNoAnswer
	}
	if left == nil {
		return why.error(c)
	}
	if why.failed != nil && why.held == nil && why.wrap == nil {
		unsure := *why.failed // others have to do with this failure too
		unsure.unknown = true
		why = &refusal{failed: &unsure, cause: why.cause}
	}
	return errors.Join(why.error(c), c.unknown("withdraw", left))
}

// refused counts an attempt that got nothing, and sets the time of the next one. It reports whether
// it was the last.
func (w *Waiter) refused(now time.Duration) bool {
	w.attempts++
	w.next = now + backoff.Pause(w.attempts, w.call.MinPause, w.call.MaxPause)
	return w.exhausted()
}

// exhausted reports whether w has made all the attempts that it may make.
func (w *Waiter) exhausted() bool {
	return w.call.MaxAttempts > 0 && w.attempts >= w.call.MaxAttempts
}

// retry waits until w gets its lease or has made its attempts, or leaves when ctx ends.
func (m *Manager) retry(ctx context.Context, k *key, w *Waiter) {
	for {
		select {
		case <-w.ready:
			return
		case <-ctx.Done():
			m.detach(ctx, k, w)
			return
		case <-time.After(m.count(k, w)):
		}
	}
}

// count counts the attempt of w that is due, if the store need not be called: another call of this
// process holds the key, or waits before w. It returns when to look again.
func (m *Manager) count(k *key, w *Waiter) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, now := slices.Index(k.waiters, w), m.clock.Awake()
	switch {
	case at < 0 || now < w.next:
	case at == 0 && !k.takenLocked(): // the runner makes it
		return w.call.MinPause
	case w.refused(now):
		k.removeLocked(w)
		k.failLocked(w, k.blockedLocked(at))
		m.reconcileLocked(k)
	}
	return max(w.next-now, w.call.MinPause)
}

// detach removes w from the queue because its ctx has ended, unless it got its lease at the same
// moment.
func (m *Manager) detach(ctx context.Context, k *key, w *Waiter) {
	cause := context.Cause(ctx) // before the lock is taken: a look at a lease's context may end the lease
	m.mu.Lock()
	defer m.mu.Unlock()
	at := k.removeLocked(w)
	if at < 0 {
		return
	}
	why := k.blockedLocked(at)
	why.cause = cause
	k.failLocked(w, why)
	if first := k.firstLocked(); at == 0 && k.running && first != nil && first.call.Paced {
		k.wakeRunnerLocked() // the runner may sleep longer than this waiter wants
	}
	m.reconcileLocked(k)
}

// deliverLocked gives w its lease.
func (w *Waiter) deliverLocked(lease *Lease) {
	w.lease = lease
	close(w.ready)
}

// blockedLocked returns why the waiter at a position of the queue got nothing: who holds the key,
// or what is wrong with the store. The store answers the first waiter only; of a tenure of this
// process the process knows more.
func (k *key) blockedLocked(at int) refusal {
	var h Held
	if k.held != nil {
		h = k.held.now()
	}
	for _, t := range k.tenures {
		if t.lease != nil {
			b := &h.Blocker
			b.Holder, b.Fence = t.call.Holder, t.lease.fence
			b.Held, b.Left = t.m.clock.Awake()-t.lease.since, max(0, t.hold.Left())
		}
	}
	h.Ahead += at
	switch {
	case k.held != nil || len(k.tenures) > 0:
		return refusal{held: &h, failed: k.failed}
	case k.failed != nil:
		return refusal{failed: k.failed} // the store never said that the key is held
	default: // another call of this process attempts the store
		return refusal{failed: &failure{"acquire", false, ErrNoAnswer}}
	}
}

// A Position is what a waiter waits for, and behind what.
type Position struct {
	Call   *Call
	Before []*Call // those that wait before it, in order
	Entry  string  // driver.Tag of the owner of the process' queue entry; "": there is none
}

// Position returns where w stands. It reports whether w still waits.
func (w *Waiter) Position() (p Position, waits bool) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	at := slices.Index(w.k.waiters, w)
	if at < 0 {
		return p, false
	}
	p.Call = w.call
	if w.k.entry != nil {
		p.Entry = driver.Tag(w.k.owner)
	}
	for _, before := range w.k.waiters[:at] {
		p.Before = append(p.Before, before.call)
	}
	return p, true
}

// Fail ends the wait with the error that wrap makes of who is in the way, unless w got its lease or
// failed already.
func (w *Waiter) Fail(wrap func(blocked error) error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	at := w.k.removeLocked(w)
	if at < 0 {
		return
	}
	why := w.k.blockedLocked(at)
	why.wrap = wrap
	w.k.failLocked(w, why)
	w.m.reconcileLocked(w.k)
}
