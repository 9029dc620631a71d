package queue

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// A key is what this process has to do with one key of the store: its tenures, and the calls that
// attempt or wait. A key exists as long as it has any of them. It is guarded by Manager.mu.
type key struct {
	name      string
	tenures   []*tenure  // the claims of this process
	only      [1]*tenure // memory for the first of them
	waiters   []*Waiter  // in order of arrival
	attempts  int32      // calls that attempt the store themselves
	exclusive bool       // one of these calls wants an exclusive claim
	yield     bool       // the claim was released for other processes: they shall attempt first
	running   bool       // there is a runner

	held   *Held    // the store's last refusal since this process had the key
	failed *failure // the store's last error, if that came after the refusal

	goal      *Call              // what the runner acquires or releases; nil: neither
	entry     *Call              // what the runner's queue entry is for; nil: it has none
	owner     string             // of that entry
	surplus   []*tenure          // tenures for the runner: it reacquires them for the first waiter, or releases them
	changed   chan struct{}      // wakes the runner
	interrupt context.CancelFunc // ends the runner's call of the store, if it is in one
	leaving   []chan error       // notified when the runner has seen that the queue changed
}

// keyLocked returns the key of a call.
func (m *Manager) keyLocked(c *Call) *key {
	k := m.keys[c.Key]
	if k == nil {
		k = c.newKey()
		m.keys[c.Key] = k
	}
	return k
}

// reconcileLocked is called after every change of a key. It starts the runner if there is work for
// it, wakes it if its entry is of no more use, and forgets a key that has nothing.
func (m *Manager) reconcileLocked(k *key) {
	w := k.firstLocked()
	switch {
	case k.running:
		if k.entry != nil && (w == nil || !w.call.same(k.entry)) {
			k.wakeRunnerLocked()
		}
	case len(k.surplus) > 0, w != nil && !k.takenLocked():
		k.running = true
		k.changed = make(chan struct{}, 1)
		m.wg.Add(1)
		go m.run(k)
	case w == nil && len(k.tenures) == 0 && k.attempts == 0:
		if m.keys[k.name] == k {
			delete(m.keys, k.name)
		}
	}
}

// mayAttemptLocked reports whether a call may attempt the store itself: no call waits before it,
// and this process surely has nothing in its way.
func (k *key) mayAttemptLocked(c *Call) bool {
	return len(k.waiters) == 0 && !k.takenLocked() && (k.attempts == 0 || !c.exclusive())
}

// takenLocked reports whether this process holds or attempts the key exclusively: then there is
// nothing to attempt.
func (k *key) takenLocked() bool {
	if k.exclusive {
		return true
	}
	return len(k.tenures) > 0 && k.tenures[0].call.exclusive() // an exclusive one is the only one
}

// beginAttemptLocked notes that a call attempts the store itself.
func (k *key) beginAttemptLocked(c *Call) {
	k.attempts++
	k.exclusive = k.exclusive || c.exclusive() && c.Wait != 0
}

// finishAttemptLocked notes that the call no longer does.
func (k *key) finishAttemptLocked(c *Call) {
	k.attempts--
	if c.exclusive() && c.Wait != 0 {
		k.exclusive = false
	}
}

// firstLocked returns the first waiter, or nil.
func (k *key) firstLocked() *Waiter {
	if len(k.waiters) == 0 {
		return nil
	}
	return k.waiters[0]
}

// popLocked removes the first waiter.
func (k *key) popLocked() {
	k.waiters[0] = nil
	k.waiters = k.waiters[1:]
}

// removeLocked removes a waiter, and returns where it stood; -1: it is not in the queue.
func (k *key) removeLocked(w *Waiter) (at int) {
	if at = slices.Index(k.waiters, w); at >= 0 {
		k.waiters = slices.Delete(k.waiters, at, at+1)
	}
	return at
}

// idleLocked reports whether the work of the runner is of no use to the first waiter.
func (k *key) idleLocked() bool {
	w := k.firstLocked()
	return w == nil || k.goal != nil && !w.call.same(k.goal)
}

// wakeRunnerLocked makes the runner look at the key again.
func (k *key) wakeRunnerLocked() {
	if k.interrupt != nil && k.idleLocked() {
		k.interrupt()
	}
	select {
	case k.changed <- struct{}{}:
	default: // it will look already
	}
}

// seenLocked notifies the calls that left the queue that the runner has seen it, and of what may
// be left in the store.
func (k *key) seenLocked(left error) {
	for _, c := range k.leaving {
		c <- left
	}
	k.leaving = nil
}

// failLocked ends the wait of w, which was removed from the queue. If the runner works for nobody
// else now, the call waits until that work is undone: see [Waiter.undone]. This is noted here and
// not by the call, which may come too late to hear what is left.
func (k *key) failLocked(w *Waiter, why refusal) {
	w.refusal = &why
	if k.running && k.idleLocked() && (k.firstLocked() == nil || w.call.same(k.goal)) {
		w.left = make(chan error, 1)
		k.leaving = append(k.leaving, w.left)
		k.wakeRunnerLocked()
	}
	close(w.ready)
}

// failAllLocked ends all waits.
func (k *key) failAllLocked(why refusal) {
	all := k.waiters
	k.waiters = nil
	for _, w := range all {
		k.failLocked(w, why)
	}
}

// resizedLocked ends the waits of calls that want more than a new limit.
func (m *Manager) resizedLocked(k *key, size *atomic.Int64) {
	var heavy []*Waiter
	k.waiters = slices.DeleteFunc(k.waiters, func(w *Waiter) bool {
		gone := w.call.Size == size && w.call.TooHeavy() != nil
		if gone {
			heavy = append(heavy, w)
		}
		return gone
	})
	for _, w := range heavy { // after all of them are removed, so that no entry is kept for one of them
		k.failLocked(w, refusal{err: w.call.TooHeavy()})
	}
	if w := k.firstLocked(); w != nil && w.call.Size == size {
		k.wakeRunnerLocked()
	}
	m.reconcileLocked(k)
}

const (
	// contendedTime is for how long after a refusal a key counts as contended.
	contendedTime = time.Second

	// maxContended bounds how many keys are remembered. All are forgotten when there are more.
	maxContended = 1024
)

// contended has the keys on which the store has lately refused a claim, and until when each is
// remembered. A call for such a key takes a queue entry with its first attempt, and saves the
// attempt that finds out that it needs one. A wrong guess costs a little time and nothing else.
type contended map[string]time.Duration

// note remembers a key.
func (c contended) note(key string, now time.Duration) {
	if len(c) >= maxContended {
		clear(c)
	}
	c[key] = now + contendedTime
}

// has reports whether a key is remembered.
func (c contended) has(key string, now time.Duration) bool {
	until, ok := c[key]
	if ok && now >= until {
		delete(c, key)
		return false
	}
	return ok
}
