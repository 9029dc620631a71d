package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
)

// A step is what the runner does next.
type step int

const (
	attempt   step = iota // attempt the store for the first waiter
	reacquire             // continue with a surplus tenure for the first waiter, or release it
	withdraw              // remove the entry: no waiter wants what it is for
	yield                 // pause, so that other processes attempt first
	stop                  // there is nothing to do
)

// run is the runner of a key. It works for many calls and outlives each of them: its ctx is the
// Manager's own.
//
//nolint:contextcheck // see above
func (m *Manager) run(k *key) {
	defer m.wg.Done()
	var e *entry
	var left error // why something of this process may be left in the store
	for {
		next, t, w := m.next(k, &e, left)
		switch next {
		case stop:
			return
		case reacquire:
			left = cmp.Or(m.reacquire(k, t), left)
			continue
		case withdraw:
			left = cmp.Or(e.withdraw(m), left)
			e = nil
			continue
		case yield:
			left = nil
			k.sleep(nil, backoff.Jitter(2*w.call.MinPause))
			continue
		}
		left = nil // those that left the queue were notified
		if m.round(k, e, w) {
			e.cancel()
			e = nil
		}
	}
}

// next decides what the runner does: with its entry e, with a surplus tenure t, for the first
// waiter w. It makes the entry if one is needed.
func (m *Manager) next(k *key, e **entry, left error) (next step, t *tenure, w *Waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k.goal = nil
	if *e != nil {
		k.goal = (*e).call
	}
	w = k.firstLocked()
	switch {
	case len(k.surplus) > 0:
		t = k.surplus[0]
		k.surplus = slices.Delete(k.surplus, 0, 1)
		k.goal = t.call
		return reacquire, t, w
	case *e != nil && (w == nil || !w.call.same((*e).call) || (*e).ctx.Err() != nil):
		k.entry = nil
		return withdraw, nil, w
	case w == nil, *e == nil && k.takenLocked():
		k.running = false
		k.seenLocked(left)
		m.reconcileLocked(k)
		return stop, nil, w
	}
	k.seenLocked(left)
	if *e == nil {
		*e = m.newEntry(w.call)
	}
	k.goal, k.entry, k.owner, k.interrupt = (*e).call, (*e).call, (*e).request.Owner, (*e).cancel
	(*e).request.Limit = (*e).call.Bound()
	(*e).seen = m.seq
	if k.yield {
		k.yield = false
		return yield, nil, w
	}
	return attempt, nil, w
}

// round attempts the store for the first waiter, and sleeps if it was refused. It reports whether
// the entry has ended: the claim was granted, or another owner has to attempt.
func (m *Manager) round(k *key, e *entry, w *Waiter) (ended bool) {
	if e.wake == nil {
		// Watch before the attempt, so that no notification falls in between.
		e.wake = driver.Watch(e.ctx, m.store, e.request.ID)
	}
	granted, pause := m.runAttempt(k, e, w)
	if granted {
		return true
	}
	woken := k.sleep(e.wake, pause)
	switch {
	case woken.Granted && m.accept(k, e, woken):
		return true
	case e.stuck(m):
		m.mu.Lock()
		defer m.mu.Unlock()
		k.entry = nil
		return true
	}
	return false
}

// sleep waits until the store notifies the runner, or the runner has to look again. It returns the
// notification of the store, if there was one.
func (k *key) sleep(wake <-chan driver.Wake, pause time.Duration) (woken driver.Wake) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case woken = <-wake:
	case <-k.changed:
	case <-timer.C:
	}
	return woken
}
