package queue

import (
	"context"
	"errors"
	"time"

	"github.com/distlock/distlock/driver"
)

// Acquire acquires the claim of c: it attempts, and waits if it has to. An error leaves nothing
// behind, unless it says that the outcome is unknown.
func (m *Manager) Acquire(ctx context.Context, c *Call) (*Lease, error) {
	if c.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Wait)
		defer cancel()
	}
	k, w, err := m.admit(c) // decides: attempt now (w is nil), or wait
	if err == nil && w == nil {
		defer m.wg.Done() // see admit
		var lease *Lease
		if lease, w, err = m.attempt(ctx, k, c); lease != nil {
			return m.welcome(ctx, lease, Event{}), nil
		}
	}
	if err != nil { // else w is in the queue
		c.event(ctx, Event{Type: Refused, Took: m.clock.Awake() - c.Began, Err: err})
		return nil, err
	}
	return m.await(ctx, k, w)
}

// admit decides how c continues: it attempts the store now, or it waits in the queue as w.
func (m *Manager) admit(c *Call) (k *key, w *Waiter, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, ErrClosed
	}
	k = m.keyLocked(c)
	m.seq++
	c.seq = m.seq
	if c.Wait != 0 {
		may := k.mayAttemptLocked(c)
		if !may || m.features.Queue && m.contended.has(c.Key, c.Began) {
			w = &Waiter{call: c, first: may}
			m.enqueueLocked(k, w)
			return k, w, nil
		}
	}
	k.beginAttemptLocked(c)
	m.wg.Add(1) // until Acquire returns
	return k, nil, nil
}

// attempt attempts the store for c. One of the results is set: the lease, the waiter that c became
// since the store refused it, or the error.
func (m *Manager) attempt(ctx context.Context, k *key, c *Call) (*Lease, *Waiter, error) {
	answered := false
	defer func() {
		if !answered { // the caller panicked
			m.mu.Lock()
			defer m.mu.Unlock()
			k.finishAttemptLocked(c)
			m.reconcileLocked(k)
		}
	}()
	id, res, sent, err := m.try(ctx, c)
	answered = true
	lease, w, err := m.answer(k, c, id, res, sent, err)
	if lease == nil && w == nil && err == nil {
		err = m.reject(ctx, c, id)
	}
	return lease, w, err
}

// answer continues a call with the answer of its attempt. All results are nil if the claim was
// granted too late.
func (m *Manager) answer(k *key, c *Call, id driver.ID, res driver.Result, sent time.Duration, err error) (lease *Lease, w *Waiter, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k.finishAttemptLocked(c)
	defer m.reconcileLocked(k)
	switch {
	case err != nil:
	case res.Granted:
		lease = m.grantLocked(k, c, id, res, sent, 0)
	case m.closed:
		err = ErrClosed
	case c.Wait == 0 || c.MaxAttempts == 1 || res.Blocker.Kept:
		err = c.Caller.Held(*newHeld(res))
	default:
		now := m.clock.Awake()
		k.held, k.failed = newHeld(res), nil
		m.contended.note(c.Key, now)
		w = &Waiter{call: c}
		w.refused(now)
		m.enqueueLocked(k, w)
	}
	return lease, w, err
}

// reject releases a claim that was granted too late to be of use.
func (m *Manager) reject(ctx context.Context, c *Call, id driver.ID) error {
	err := m.undo(ctx, c, id)
	if err == nil && m.Closed() {
		return ErrClosed
	}
	return c.Caller.Failed("acquire", err != nil, ErrTooLate)
}

// welcome reports a new lease, with what e says about the wait for it, and returns the lease.
func (m *Manager) welcome(ctx context.Context, lease *Lease, e Event) *Lease {
	if lease.call.Observed { // Left reads system clocks
		reported := false
		defer lease.unless(ctx, &reported)
		e.Type, e.Took, e.Left = Granted, lease.since-lease.call.Began, lease.t.hold.Left()
		e.Handed, e.Behind = lease.handed, lease.behind
		lease.event(ctx, e)
		reported = true
	}
	return lease
}

// unless discards the lease unless its caller got it: a panic on the way keeps the caller from it.
func (l *Lease) unless(ctx context.Context, got *bool) {
	if !*got {
		_ = l.Discard(ctx)
	}
}

// try attempts the store for c, with a new owner and no queue entry. If the answer is lost, it
// makes one more attempt within the same limit: the same owner gets the same grant. After an error
// nothing is left in the store, or the error says that the outcome is unknown.
func (m *Manager) try(ctx context.Context, c *Call) (driver.ID, driver.Result, time.Duration, error) {
	r := c.Request
	r.Owner = NewOwner()
	if err := ctx.Err(); err != nil {
		return r.ID, driver.Result{}, 0, context.Cause(ctx)
	}
	began := m.clock.Awake()
	res, sent, err := m.acquire(ctx, c, r)
	unknown := err != nil && Unknown(err)
	if left := c.limit() - (m.clock.Awake() - began); unknown && left > 0 && ctx.Err() == nil {
		again, cancel := context.WithTimeout(ctx, left)
		res, sent, err = m.acquire(again, c, r)
		cancel()
	}
	switch {
	case err == nil && (res.Granted || !unknown):
		return r.ID, res, sent, nil
	case err == nil: // the first attempt may still be under way, and refuse the second
		if err = m.undo(ctx, c, r.ID); err == nil {
			return r.ID, res, sent, nil
		}
		return r.ID, driver.Result{}, sent, c.unknown("acquire", err)
	}
	failed := newFailure("acquire", err)
	if unknown || failed.unknown { // one of the two attempts may have taken effect
		failed.unknown = m.undo(ctx, c, r.ID) != nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return r.ID, res, sent, withCause(failed.error(c), cause)
	}
	return r.ID, res, sent, failed.error(c)
}

// withCause joins the reason why a context ended to an error, unless the error has it already.
func withCause(err, cause error) error {
	if errors.Is(err, cause) {
		return err
	}
	return errors.Join(err, cause)
}

// Attach continues with a claim that another process gave away: it renews the claim of the owner of
// c, and makes a lease of it.
func (m *Manager) Attach(ctx context.Context, c *Call, fence uint64) (*Lease, error) {
	lease, err := m.attach(ctx, c, fence)
	if err != nil {
		c.event(ctx, Event{Type: Refused, Took: m.clock.Awake() - c.Began, Err: err})
		return nil, err
	}
	return m.welcome(ctx, lease, Event{}), nil
}

func (m *Manager) attach(ctx context.Context, c *Call, fence uint64) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	exit := m.Enter()
	if exit == nil {
		return nil, ErrClosed
	}
	defer exit()
	if err := m.mayAttach(c, fence); err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	sent := m.clock.Now()
	behind, err := m.store.Renew(call, driver.Renewal{ID: c.ID, TTL: c.TTL})
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		return nil, c.Caller.Lost(fence, err)
	case err != nil:
		return nil, c.failed("attach", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mayAttachLocked(c, fence); err != nil {
		return nil, err // the claim expires, or another lease of this process has it
	}
	k := m.keyLocked(c)
	defer m.reconcileLocked(k)
	lease := m.grantLocked(k, c, c.ID, driver.Result{Fence: fence, Behind: behind}, sent, 0)
	if lease == nil {
		return nil, c.unknown("attach", ErrTooLate)
	}
	lease.t.pinned = true // how many of its fences were used is not known
	return lease, nil
}

// mayAttach returns what keeps a claim from being attached.
func (m *Manager) mayAttach(c *Call, fence uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayAttachLocked(c, fence)
}

func (m *Manager) mayAttachLocked(c *Call, fence uint64) error {
	if m.closed {
		return ErrClosed
	}
	if k := m.keys[c.Key]; k != nil {
		for _, t := range k.tenures {
			if t.id == c.ID {
				return c.Caller.Held(Held{Blocker: driver.Claim{Holder: c.Holder, Fence: fence}})
			}
		}
	}
	return nil
}
