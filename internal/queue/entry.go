package queue

import (
	"context"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/keeper"
)

// An entry is what the runner acquires a claim with: its entry in the queue of the store, if that
// has one, and the watch that goes with it. It belongs to the runner alone.
type entry struct {
	call     *Call
	request  driver.Request
	ctx      context.Context // of the watch and of the attempts
	cancel   context.CancelFunc
	wake     <-chan driver.Wake // nil: the store cannot watch
	seen     uint64             // the last call that had come when the last attempt was made
	failures int                // attempts since the store last answered one
	doubt    bool               // one of them may have taken effect
	together bool               // the store batches attempts

	// What is known since the attempt that the store last refused; before that, since the first
	// one.
	begun bool
	since uint64        // the last call that had come when that attempt was sent
	sent  time.Duration // when it was sent
	stays bool          // the entry cannot have ended and begun again before that was answered
	fence uint64        // of the claim that was in the way
}

// maxQueueTTL bounds how long an entry lives after each attempt.
const maxQueueTTL = 30 * time.Second

func (m *Manager) newEntry(c *Call) *entry {
	e := &entry{call: c, request: c.Request, together: m.features.Batch}
	e.request.Owner = NewOwner()
	if m.features.Queue {
		// Two attempts may fail before the entry is lost. A waiter that dies holds up those behind
		// it until then, however long its pauses are.
		e.request.QueueTTL = min(3*max(c.MaxPause, time.Second), maxQueueTTL)
	}
	e.ctx, e.cancel = context.WithCancel(m.running)
	return e
}

// refused notes that the store refused an attempt.
func (e *entry) refused(res driver.Result, sent, now time.Duration) {
	ttl := e.request.QueueTTL
	e.stays = e.stays && now-e.sent < ttl-keeper.Margin(ttl)
	e.sent, e.since, e.fence = sent, e.seen, max(e.fence, res.Blocker.Fence)
}

// stuck reports whether the past of this owner keeps the store from granting the claim: a majority
// of nodes that could not undo an attempt of an owner grants nothing to it for long. Then another
// owner has to attempt, if nothing of this one is left. An owner with a queue entry keeps it.
func (e *entry) stuck(m *Manager) bool {
	return e.request.QueueTTL == 0 && e.doubt && e.failures > 1 && m.withdraw(m.running, e.call, e.request.ID) == nil
}

// withdraw leaves the queue of the store. If that fails, the entry, or a grant that nobody has
// seen, ends by itself.
func (e *entry) withdraw(m *Manager) error {
	e.cancel()
	return m.withdraw(m.running, e.call, e.request.ID)
}

// runAttempt attempts the store for the first waiter w. It reports whether the claim was granted,
// to the waiter that is the first by then, or how long to pause.
func (m *Manager) runAttempt(k *key, e *entry, w *Waiter) (granted bool, pause time.Duration) {
	res, sent, err := m.acquire(e.ctx, e.call, e.request)
	if !e.begun {
		e.begun, e.stays, e.sent, e.since = true, true, sent, e.seen
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k.interrupt = nil
	if err == nil {
		e.failures, e.doubt = 0, false
	}
	switch {
	case err == nil && res.Granted:
		return m.deliverLocked(k, e, res, sent, 0), 0
	case err == nil:
		k.held, k.failed = newHeld(res), nil
		m.contended.note(k.name, m.clock.Awake())
		w.first = false
		e.refused(res, sent, m.clock.Now())
		if res.Blocker.Kept {
			k.failAllLocked(refusal{held: k.held}) // they waited for a claim that has become a record
			m.reconcileLocked(k)
			return false, 0
		}
	case e.ctx.Err() == nil: // it was not interrupted
		failed := newFailure("acquire", err)
		k.failed = failed
		e.failures++
		e.doubt = e.doubt || failed.unknown
		slow := m.clock.Now()-sent > w.call.limit()/2                                       // there is no time for another within the limit
		if w.first && (w.attempts > 0 || slow || !failed.unknown) && k.firstLocked() == w { // see try
			shown := *failed
			shown.unknown = false // a claim that may have been granted is withdrawn: see Waiter.undone
			k.popLocked()
			k.failLocked(w, refusal{failed: &shown})
			m.reconcileLocked(k)
			return false, 0
		}
	}
	pause = e.pause(w, res, m.clock.Awake())
	if w.exhausted() && k.firstLocked() == w {
		k.popLocked()
		k.failLocked(w, k.blockedLocked(0))
		m.reconcileLocked(k)
	}
	return false, pause
}

// accept takes a pushed grant: a claim that the store granted to the entry without an attempt. It
// reports whether it could; if not, an attempt follows, which gives the claim its TTL.
//
// The claim lives for the rest of the entry's life. So trust counts from the attempt that the store
// last answered with the entry: the store gave the entry its life after that was sent, and granted
// the claim later still. The notification itself starts no trust, because it may come late: if the
// claim ended unseen, and a later attempt made a new entry, the notification is about a claim that
// is gone. So it counts only if the entry cannot have ended before the last answer, and if its
// fence is above the fence that was in the way then.
//
// A claim that is not renewed, or has to outlive its trust, needs all of its TTL in the store from
// the start: it needs an attempt.
func (m *Manager) accept(k *key, e *entry, pushed driver.Wake) bool {
	terms := &e.call.Terms
	if !e.stays || pushed.Fence <= e.fence || terms.Fixed || terms.Delay > 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	res := driver.Result{Granted: true, Fence: pushed.Fence, Behind: pushed.Behind}
	return m.deliverLocked(k, e, res, e.sent, min(e.request.QueueTTL, terms.TTL))
}

// deliverLocked gives a granted claim, which lives for life since sent, or for its TTL, to the
// first waiter. If no waiter wants it any more, it stays in a surplus tenure, which the runner
// releases.
func (m *Manager) deliverLocked(k *key, e *entry, res driver.Result, sent, life time.Duration) bool {
	w := k.firstLocked()
	lease := m.grantLocked(k, e.call, e.request.ID, res, sent, life)
	if lease == nil {
		return false // too late to be trusted: the next attempt gives the same owner a new TTL
	}
	k.entry = nil
	// The store may have granted the claim to an attempt whose answer was lost or late, or without
	// an attempt. A claim that leaves capacity to others is then of no use to a call that came
	// after the last refusal: claims with higher fences may have come and gone before the call. If
	// the claim is fresh, the same holds for a call that came after this attempt.
	known := e.since
	if res.Fresh {
		known = e.seen
	}
	lease.t.pinned = w != nil && !e.call.exclusive() && w.call.seq > known
	if w == nil || !w.call.same(e.call) || lease.t.pinned {
		lease.t.toRunnerLocked()
		return true
	}
	lease.call, lease.t.call = w.call, w.call
	if w.call.Terms.MaxHold != e.call.Terms.MaxHold {
		lease.t.hold.HandOff(w.call.Terms.MaxHold)
	}
	k.popLocked()
	w.deliverLocked(lease)
	return true
}

// foreignPoll is the longest pause while another program holds the key. Its release notifies
// nobody, and its own clients attempt about as often.
const foreignPoll = 100 * time.Millisecond

// foreign reports whether another program holds the key: a plain Redis key. A store with a queue
// knows the fence and the age of its own claims, and other programs do not queue.
func (e *entry) foreign(c driver.Claim) bool {
	return e.request.QueueTTL > 0 && c.Holder != "" && c.Fence == 0 && c.Held == 0 && !c.Waiting
}

// pause counts an attempt of w that did not get the claim, and returns how long to wait for a
// notification before the next one. An attempt that comes before its time is not counted.
func (e *entry) pause(w *Waiter, res driver.Result, now time.Duration) time.Duration {
	if !w.call.Paced || now >= w.next {
		w.attempts++
		w.next = now + e.interval(w, res.Blocker)
	}
	if e.far(w, res) {
		pause := e.request.QueueTTL/4 + backoff.Jitter(e.request.QueueTTL/4)
		if e.together {
			pause += toBeat(pause)
		}
		return pause
	}
	pause := w.next - now
	if e.request.QueueTTL > 0 {
		pause = min(pause, e.request.QueueTTL/3)
	}
	if res.Retry > 0 && res.Retry < pause {
		pause = min(pause, res.Retry+backoff.Jitter(2*time.Millisecond)) // it ends by itself, and notifies nobody
	}
	return pause
}

// near is how many queue entries may be before an entry that is near the head of the queue.
const near = 16

// far reports whether the attempt after a refusal only has to keep the queue entry: many others are
// before it, and the store notifies the runner when its time comes. With n waiting processes the
// attempts cost the store n times n, so these are rare, and Retry does not shorten the pause. One
// attempt may fail before the entry is lost.
func (e *entry) far(w *Waiter, res driver.Result) bool {
	return e.request.QueueTTL > 0 && e.wake != nil && res.Ahead > near && !w.call.Paced
}

// beat is the time between the beats on which the far waiters of this process attempt, if the store
// batches their attempts. Processes have different beats.
const beat = 20 * time.Millisecond

var offBeat = backoff.Jitter(2 * beat)

// toBeat returns the time from the end of a pause to the next beat.
func toBeat(pause time.Duration) time.Duration {
	return beat - time.Duration(time.Now().Add(pause+offBeat).UnixNano())%beat
}

// interval returns the time between the attempts of w.
func (e *entry) interval(w *Waiter, blocker driver.Claim) time.Duration {
	c := w.call
	switch {
	case c.Paced:
	case e.foreign(blocker):
		return backoff.Pause(w.attempts, c.MinPause, foreignPoll)
	case e.wake != nil:
		return backoff.Jitter(c.MaxPause)
	}
	return backoff.Pause(w.attempts, c.MinPause, c.MaxPause)
}
