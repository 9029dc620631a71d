package distlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// turnTime is how long a process may keep a key to itself while another waits for it in the
// store, and how long it may go on without asking the store whether one does.
const turnTime = 50 * time.Millisecond

// A turn is a claim of this process. The claim's owner belongs to the turn and not to a call: one
// goroutine after the other may have the lease in its hand, each with a fence of its own out of the
// Span that the grant owns, and without a word to the store.
//
//	store:   Acquire ------------------------------------------ Release
//	turn:    | lease, fence f | lease, f+1 | lease, f+2 | ... |
//
// Only a claim that leaves room for nobody is handed on. A turn ends when nobody in the process waits for
// the same; when its fences are used up or turnTime is over while another process waits, or may wait because
// the store has no line to tell; when it is lost. As long as no other process waits, its
// fences are renewed, and the store is asked every turnTime whether one does.
type turn struct {
	l    *Locker
	n    *line
	r    *request // of the lease in hand
	id   driver.ID
	hold keeper.Hold

	// The rest is guarded by the locker's lock.
	lease  *Lease // in somebody's hand; nil: the runner has the turn, or it is over
	fence  uint64 // the first that belongs to this grant; 0: the store has none
	used   uint64 // how many of them were given out
	began  time.Duration
	heard  time.Duration // when the store was last heard of
	behind int           // how many waited in the store then
	sealed bool          // not to be handed on
}

// grant makes a turn and its first lease of what the store granted. It returns nil if it is too late
// for that: the answer took longer than it could be trusted, or the locker was closed. The claim
// lives for life from sent on; 0: for its TTL. The lock is held.
func (l *Locker) grant(n *line, r *request, id driver.ID, res driver.Result, sent, life time.Duration) *Lease {
	if l.closed {
		return nil
	}
	now, room := l.clock.Awake(), r.takeRoom()
	t := &room.turn
	t.l, t.n, t.r, t.id, t.fence, t.began, t.heard, t.behind = l, n, r, id, res.Fence, now, now, res.Behind
	if !l.keeper.KeepProvisional(&t.hold, id, r.opt.terms(), sent, life, t) {
		return nil
	}
	if n.turns == nil {
		n.turns = n.only[:0]
	}
	n.turns = append(n.turns, t)
	n.held, n.failed = nil, nil
	return t.next(&room.lease, r, false)
}

// next makes the turn's next lease. The lock is held.
func (t *turn) next(lease *Lease, r *request, handed bool) *Lease {
	lease.t, lease.r, lease.since, lease.handed, lease.behind = t, r, t.l.clock.Awake(), handed, t.behind
	if t.fence > 0 {
		lease.fence = t.fence + t.used
		t.used++
	}
	t.r, t.lease = r, lease
	return lease
}

// pass passes the turn on to the first waiter, or to the runner to prolong it for the first
// waiter. It reports whether it did; if not, the turn is to be ended. The lock is held.
func (t *turn) pass() bool {
	w := t.n.first()
	// What leaves room for others is not handed on: fences of others may have come and
	// gone meanwhile, and whoever waits with room left waits behind somebody else's turn.
	if w == nil || !t.r.alone() || t.sealed || t.r.opt.fixed || t.r.opt.atLeast > 0 || !w.r.same(t.r) || !t.hold.Trusted(0) {
		return false
	}
	fresh := t.l.clock.Awake()-t.heard < min(turnTime, t.r.opt.ttl/4)
	switch {
	case t.enough():
		t.n.rest = !t.l.features.Queue
		return false
	case t.used < driver.Span && fresh:
		t.serve(w)
		return true
	case t.behind > 0, t.used >= driver.Span && !t.l.features.Floor:
		return false
	}
	t.spare()
	t.n.shake()
	t.l.tidy(t.n)
	return true
}

// enough reports whether the turn has lasted for as long as it may while others wait, or while
// nobody knows whether they do. The lock is held.
func (t *turn) enough() bool {
	return (t.behind > 0 || !t.l.features.Queue) && t.l.clock.Awake()-t.began >= turnTime
}

// spare leaves the turn to the runner. The lock is held.
func (t *turn) spare() {
	t.lease = nil
	t.n.task = t.r
	t.n.spares = append(t.n.spares, t)
}

// serve gives the turn to the first waiter. The lock is held.
func (t *turn) serve(w *waiter) {
	t.n.pop()
	if w.r.opt.maxHold != 0 || t.r.opt.maxHold != 0 {
		t.hold.Pass(w.r.opt.maxHold)
	}
	w.give(t.next(&w.r.takeRoom().lease, w.r, true))
	t.l.tidy(t.n)
}

// prolong asks the store again for a turn that is in the runner's hands, and passes it on to the
// first waiter, or ends it. An error says that it may be left in the store. It is
// called with the lock held and returns without.
func (l *Locker) prolong(n *line) error {
	t, w := n.spares[0], n.first()
	n.spares = slices.Delete(n.spares, 0, 1)
	n.task = t.r
	if w == nil || !w.r.same(t.r) || t.sealed {
		l.mu.Unlock()
		return l.dismiss(t)
	}
	ask := t.r.Request
	ask.Owner = t.id.Owner
	if t.used >= driver.Span {
		ask.Floor = t.fence + driver.Span
	}
	ctx, cancel := context.WithCancel(l.running)
	defer cancel()
	n.interrupt = cancel
	l.mu.Unlock()
	res, sent, err := l.acquire(ctx, t.r, ask)
	if err != nil || !res.Granted || !l.resume(n, t, res, sent) {
		return l.dismiss(t)
	}
	return nil
}

// resume goes on with a turn that was granted again. It reports whether it could.
func (l *Locker) resume(n *line, t *turn, res driver.Result, sent time.Duration) bool {
	t.hold.Again(sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := n.first()
	t.heard, t.behind = l.clock.Awake(), res.Behind
	if !t.hold.Trusted(0) || w == nil || !w.r.same(t.r) || t.enough() {
		return false
	}
	if res.Fence != t.fence {
		t.fence, t.used = res.Fence, 0
	}
	t.serve(w)
	return true
}

// dismiss ends a turn that nobody has a lease of. If it fails the claim runs out by itself.
func (l *Locker) dismiss(t *turn) error {
	call, cancel := l.call(l.running, t.r.limit())
	defer cancel()
	_ = t.hold.Stop(call)
	err := l.withdraw(l.running, t.r, t.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.over()
	return err
}

// over takes the turn out of its line, and lets those who wait go on. The lock is held.
func (t *turn) over() {
	t.lease = nil
	t.n.turns = slices.DeleteFunc(t.n.turns, func(o *turn) bool { return o == t })
	t.l.tidy(t.n)
}

// Renewed notes what the store answered to a renewal.
func (t *turn) Renewed(k keeper.Renewal) {
	t.l.mu.Lock()
	lease := t.lease
	if k.Err == nil {
		t.heard, t.behind = t.l.clock.Awake(), k.Behind
	}
	t.l.mu.Unlock()
	if lease == nil {
		return
	}
	origin := lease.r.origin
	lease.tell(origin, Event{
		Type: EventRenewed, Took: k.Took, Left: k.Left, Margin: k.Margin, Thin: k.Thin, Risk: k.Risk, Behind: k.Behind, Err: k.Err,
	})
	switch {
	case k.Err != nil && !k.Risk && !errors.Is(k.Err, driver.ErrNotHeld):
		lease.tell(origin, Event{Type: EventAtRisk, Left: k.Left, Err: k.Err})
	case k.Err == nil && k.Risk:
		lease.tell(origin, Event{Type: EventRecovered, Left: k.Left})
	}
}

// Lost ends the lease in hand.
func (t *turn) Lost(cause error) {
	t.l.mu.Lock()
	lease := t.lease
	t.over()
	if lease == nil {
		t.l.mu.Unlock()
		return
	}
	err := newLostError(t.r.name, lease.fence, cause)
	ends := lease.end(err)
	t.l.mu.Unlock()
	for _, end := range ends {
		end(err)
	}
	lease.tell(lease.r.origin, Event{Type: EventLost, Took: t.l.clock.Awake() - lease.since, Risk: t.hold.Risk(), Err: err})
}
