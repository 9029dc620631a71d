package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// tenureTime is how long a process may keep a key to itself while another waits for it in the
// store, and how long it may go on without an answer of the store about that.
const tenureTime = 50 * time.Millisecond

// A tenure is one claim of this process. The owner of the claim belongs to the tenure and not to a
// call: one goroutine after the other may have the lease, each with a fence of its own out of the
// Span that the grant owns, and without a call of the store.
//
//	store:   Acquire ------------------------------------------ Release
//	tenure:  | lease, fence f | lease, f+1 | lease, f+2 | ... |
//
// Only an exclusive claim is handed off. A tenure ends when no call of the process waits for the
// same; when its fences are used up or tenureTime has passed while another process waits, or may
// wait because the store has no queue; when it is lost. As long as no other process waits, its
// fences are renewed, and the store is called every tenureTime to find out whether one does.
type tenure struct {
	m    *Manager
	k    *key
	call *Call // of the lease
	id   driver.ID
	hold keeper.Hold

	// The rest is guarded by Manager.mu.
	lease  *Lease // in the hands of a call; nil: the runner has the tenure, or it has ended
	fence  uint64 // the first fence of this grant; 0: the store has none
	used   uint64 // how many of its fences were given to leases
	began  time.Duration
	heard  time.Duration // when the store last answered
	behind int           // how many waited in the store then
	pinned bool          // not to be handed off
}

// grantLocked makes a tenure and its first lease of a claim that the store granted. It returns nil
// if it is too late for that: the answer took longer than it can be trusted, or the Manager was
// closed. The claim lives for life from sent on; 0: for its TTL.
func (m *Manager) grantLocked(k *key, c *Call, id driver.ID, res driver.Result, sent, life time.Duration) *Lease {
	if m.closed {
		return nil
	}
	now, slab := m.clock.Awake(), c.slab()
	t := &slab.tenure
	t.m, t.k, t.call, t.id, t.fence, t.began, t.heard, t.behind = m, k, c, id, res.Fence, now, now, res.Behind
	if !m.keeper.KeepProvisional(&t.hold, id, c.Terms, sent, life, t) {
		return nil
	}
	if k.tenures == nil {
		k.tenures = k.only[:0]
	}
	k.tenures = append(k.tenures, t)
	k.held, k.failed = nil, nil
	return t.nextLocked(&slab.lease, c, false)
}

// nextLocked makes the next lease of the tenure.
func (t *tenure) nextLocked(lease *Lease, c *Call, handed bool) *Lease {
	lease.t, lease.call, lease.since, lease.handed, lease.behind = t, c, t.m.clock.Awake(), handed, t.behind
	if t.fence > 0 {
		lease.fence = t.fence + t.used
		t.used++
	}
	t.call, t.lease = c, lease
	return lease
}

// handOffLocked gives the tenure to the first waiter, or to the runner, which reacquires the claim
// for the first waiter. It reports whether it did; if not, the claim has to be released.
func (t *tenure) handOffLocked() bool {
	w := t.k.firstLocked()
	// A claim that leaves capacity to others is not handed off: fences of others may have come and
	// gone meanwhile, and a call that waits although capacity is left waits for another tenure.
	if w == nil || !t.call.exclusive() || t.pinned || t.call.Terms.Fixed || t.call.MinHold > 0 || !w.call.same(t.call) || !t.hold.Trusted(0) {
		return false
	}
	fresh := t.m.clock.Awake()-t.heard < min(tenureTime, t.call.Terms.TTL/4)
	switch {
	case t.enoughLocked():
		t.k.yield = !t.m.features.Queue
		return false
	case t.used < driver.Span && fresh:
		t.deliverLocked(w)
		return true
	case t.behind > 0, t.used >= driver.Span && !t.m.features.Floor:
		return false
	}
	t.toRunnerLocked()
	t.k.wakeRunnerLocked()
	t.m.reconcileLocked(t.k)
	return true
}

// enoughLocked reports whether the tenure has lasted for as long as it may while other processes
// wait, or while nobody knows whether they do.
func (t *tenure) enoughLocked() bool {
	return (t.behind > 0 || !t.m.features.Queue) && t.m.clock.Awake()-t.began >= tenureTime
}

// toRunnerLocked leaves the tenure to the runner, as surplus.
func (t *tenure) toRunnerLocked() {
	t.lease = nil
	t.k.goal = t.call
	t.k.surplus = append(t.k.surplus, t)
}

// deliverLocked gives the tenure to the first waiter.
func (t *tenure) deliverLocked(w *Waiter) {
	t.k.popLocked()
	if w.call.Terms.MaxHold != 0 || t.call.Terms.MaxHold != 0 {
		t.hold.HandOff(w.call.Terms.MaxHold)
	}
	w.deliverLocked(t.nextLocked(&w.call.slab().lease, w.call, true))
	t.m.reconcileLocked(t.k)
}

// reacquire attempts the store again for a surplus tenure and gives it to the first waiter, or
// releases it. An error says that the claim may be left in the store.
func (m *Manager) reacquire(k *key, t *tenure) error {
	ctx, cancel := context.WithCancel(m.running)
	defer cancel()
	r, wanted := m.beginReacquire(k, t, cancel)
	if !wanted {
		return m.release(t)
	}
	res, sent, err := m.acquire(ctx, t.call, r)
	if err != nil || !res.Granted || !m.resume(k, t, res, sent) {
		return m.release(t)
	}
	return nil
}

// beginReacquire returns the request for a surplus tenure, and whether the first waiter wants it.
func (m *Manager) beginReacquire(k *key, t *tenure, interrupt context.CancelFunc) (r driver.Request, wanted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := k.firstLocked(); w == nil || !w.call.same(t.call) || t.pinned {
		return r, false
	}
	r = t.call.Request
	r.Owner = t.id.Owner
	if t.used >= driver.Span {
		r.Floor = t.fence + driver.Span
	}
	k.interrupt = interrupt
	return r, true
}

// resume continues with a tenure that was granted again. It reports whether it could.
func (m *Manager) resume(k *key, t *tenure, res driver.Result, sent time.Duration) bool {
	t.hold.Again(sent)
	m.mu.Lock()
	defer m.mu.Unlock()
	w := k.firstLocked()
	t.heard, t.behind = m.clock.Awake(), res.Behind
	if !t.hold.Trusted(0) || w == nil || !w.call.same(t.call) || t.enoughLocked() {
		return false
	}
	if res.Fence != t.fence {
		t.fence, t.used = res.Fence, 0
	}
	t.deliverLocked(w)
	return true
}

// release ends a tenure that has no lease. If that fails, the claim expires by itself.
func (m *Manager) release(t *tenure) error {
	call, cancel := m.Call(m.running, t.call.limit())
	defer cancel()
	_ = t.hold.Stop(call)
	err := m.withdraw(m.running, t.call, t.id)
	m.mu.Lock()
	defer m.mu.Unlock()
	t.removeLocked()
	return err
}

// removeLocked removes the tenure from its key, so that waiters can continue.
func (t *tenure) removeLocked() {
	t.lease = nil
	t.k.tenures = slices.DeleteFunc(t.k.tenures, func(o *tenure) bool { return o == t })
	t.m.reconcileLocked(t.k)
}

// Renewed is called by the keeper after each renewal.
func (t *tenure) Renewed(r keeper.Renewal) {
	t.m.mu.Lock()
	lease := t.lease
	if r.Err == nil {
		t.heard, t.behind = t.m.clock.Awake(), r.Behind
	}
	t.m.mu.Unlock()
	if lease == nil {
		return
	}
	origin := lease.call.Origin
	lease.event(origin, Event{
		Type: Renewed, Took: r.Took, Left: r.Left, Margin: r.Margin, Thin: r.Thin, Risk: r.Risk, Behind: r.Behind, Err: r.Err,
	})
	switch {
	case r.Err != nil && !r.Risk && !errors.Is(r.Err, driver.ErrNotHeld):
		lease.event(origin, Event{Type: AtRisk, Left: r.Left, Err: r.Err})
	case r.Err == nil && r.Risk:
		lease.event(origin, Event{Type: Recovered, Left: r.Left})
	}
}

// Lost is called by the keeper when the claim is lost. It ends the lease.
func (t *tenure) Lost(cause error) {
	lease, ends, err := t.lose(cause)
	if lease == nil {
		return
	}
	for _, end := range ends {
		end(err)
	}
	lease.event(lease.call.Origin, Event{Type: WasLost, Took: t.m.clock.Awake() - lease.since, Risk: t.hold.Risk(), Err: err})
}

// lose removes the tenure and ends its lease, if it has one. It returns the functions that end the
// contexts of the lease.
func (t *tenure) lose(cause error) (lease *Lease, ends []context.CancelCauseFunc, err error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	lease = t.lease
	t.removeLocked()
	if lease == nil {
		return nil, nil, nil
	}
	err = lease.call.Caller.Lost(lease.fence, cause)
	return lease, lease.endLocked(err), err
}
