package distlock

import (
	"context"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/keeper"
)

// A place is the runner's place in the store's line, and the watch that goes with it.
type place struct {
	r     *request
	ask   driver.Request
	ctx   context.Context // of the watch and of the asks
	leave context.CancelFunc
	wake  <-chan driver.Wake // nil: the store cannot watch
	seen  uint64             // the last call that had come when the store was last asked
	fails int                // asks since the store last answered one
	doubt bool               // one of them may have taken effect

	// What is known since the ask that the store last refused, or since the first one as long as it has refused none.
	begun bool
	since uint64        // the last call that had come when that was sent
	stood time.Duration // when it was sent
	stays bool          // the place cannot have ended and begun anew before that was answered
	above uint64        // the fence that was in the way
}

// longestPlace bounds the life of a place in the store's line after each ask.
const longestPlace = 30 * time.Second

func (l *Locker) newPlace(r *request) *place {
	p := &place{r: r, ask: r.Request}
	p.ask.Owner = newOwner()
	if l.features.Queue {
		// Two asks may fail before the place is lost. A waiter that dies holds up those behind it
		// until then, however long its pauses are.
		p.ask.QueueTTL = min(3*max(r.opt.most, time.Second), longestPlace)
	}
	p.ctx, p.leave = context.WithCancel(l.running)
	return p
}

// refused notes that the store answered an ask with the place.
func (p *place) refused(res driver.Result, sent, now time.Duration) {
	p.stays = p.stays && now-p.stood < p.ask.QueueTTL-keeper.Margin(p.ask.QueueTTL)
	p.stood, p.since, p.above = sent, p.seen, max(p.above, res.Blocker.Fence)
}

// forsaken reports whether the claim that the place asks for has a past that keeps it from being granted: a majority of nodes that could not undo an
// ask of this owner takes none from it for long. Then another owner has to ask, if nothing of this one is left. An
// owner with a place in line keeps it.
func (p *place) forsaken(l *Locker) bool {
	return p.ask.QueueTTL == 0 && p.doubt && p.fails > 1 && l.withdraw(l.running, p.r, p.ask.ID) == nil
}

// giveUp leaves the store's line. If it fails, the place, or a grant nobody has seen, ends
// by itself.
func (p *place) giveUp(l *Locker) error {
	p.leave()
	return l.withdraw(l.running, p.r, p.ask.ID)
}

// ask asks the store for the first waiter. It reports whether the claim was granted, to
// whoever is the first waiter by then, or how long to pause.
func (l *Locker) ask(n *line, p *place, w *waiter) (granted bool, pause time.Duration) {
	res, sent, err := l.acquire(p.ctx, p.r, p.ask)
	if !p.begun {
		p.begun, p.stays, p.stood, p.since = true, true, sent, p.seen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n.interrupt = nil
	if err == nil {
		p.fails, p.doubt = 0, false
	}
	switch {
	case err == nil && res.Granted:
		return l.serve(n, p, res, sent, 0), 0
	case err == nil:
		n.held, n.failed = w.r.heldError(res), nil
		l.crowds.note(n.key, l.clock.Awake())
		w.first = false
		p.refused(res, sent, l.clock.Now())
		if res.Blocker.Kept {
			n.dissolve(n.held) // what they waited for has become a record
			l.tidy(n)
			return false, 0
		}
	case p.ctx.Err() == nil: // it was not cut short
		op := newOpError("acquire", w.r.name, err)
		n.failed = op
		p.fails++
		p.doubt = p.doubt || op.Unknown
		slow := l.clock.Now()-sent > w.r.limit()/2                                // there is no time for another within the limit
		if w.first && (w.attempts > 0 || slow || !op.Unknown) && n.first() == w { // see try
			shown := *op
			shown.Unknown = false // what may have been granted is withdrawn: see vacate
			n.pop()
			n.fail(w, &shown)
			l.tidy(n)
			return false, 0
		}
	}
	pause = p.pause(w, res, l.clock.Awake())
	if w.exhausted() && n.first() == w {
		n.pop()
		n.fail(w, n.inTheWay(w, 0))
		l.tidy(n)
	}
	return false, pause
}

// accept takes a claim that the store granted unasked and told of. It reports whether it could; if not, the store
// is asked, which gives the claim its TTL.
//
// The claim lives for the rest of the place, so trust counts from the ask that the store last answered with the place: the
// store gave it its life after that was sent, and granted the claim later still. The message itself starts no trust. It may come
// late: if the claim ended unseen, and an ask after that took a new place, it tells of what is gone. So it counts only if
// the place cannot have ended before the last answer, and if the fence is above what was in the way then.
//
// What is not renewed, or has to outlive its trust, needs all of its TTL in the store from the start: it is asked for.
func (l *Locker) accept(n *line, p *place, told driver.Wake) bool {
	o := &p.r.opt
	if !p.stays || told.Fence <= p.above || o.fixed || o.delay > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serve(n, p, driver.Result{Granted: true, Fence: told.Fence, Behind: told.Behind}, p.stood, min(p.ask.QueueTTL, o.ttl))
}

// serve gives a granted claim, which lives for life since sent, or its TTL, to the first waiter. If it is wanted no
// more, it stays in a spare turn, which the runner ends.
func (l *Locker) serve(n *line, p *place, res driver.Result, sent, life time.Duration) bool {
	w := n.first()
	lease := l.grant(n, p.r, p.ask.ID, res, sent, life)
	if lease == nil {
		return false // too late to be trusted: ask again, and the same owner gets a new TTL
	}
	n.placed = nil
	// The store may have granted the claim to an ask whose answer was lost or late, or unasked. What leaves room
	// for others is of no use then to a call that came after the last refusal: claims with higher fences may
	// have come and gone before the call. If it is fresh, that goes for a call that came after this ask.
	known := p.since
	if res.Fresh {
		known = p.seen
	}
	lease.t.sealed = w != nil && !p.r.alone() && w.seq > known
	if w == nil || !w.r.same(p.r) || lease.t.sealed {
		lease.t.spare()
		return true
	}
	lease.r, lease.t.r = w.r, w.r
	if w.r.opt.maxHold != p.r.opt.maxHold {
		lease.t.hold.Pass(w.r.opt.maxHold)
	}
	n.pop()
	w.give(lease)
	return true
}

// foreignPoll is the longest pause while another program holds the lock. Its release wakes nobody,
// and its own clients try about as often.
const foreignPoll = 100 * time.Millisecond

// foreign reports whether another program holds what is in the way: a plain Redis key. A store with
// a queue knows the fence and the age of its own claims. The others do not queue for it.
func (p *place) foreign(c driver.Claim) bool {
	return p.ask.QueueTTL > 0 && c.Holder != "" && c.Fence == 0 && c.Held == 0 && !c.Waiting
}

// pause counts an attempt of w that did not get the lock, and returns how long to wait for a
// notification before the next one. An attempt that comes before its time is not counted.
func (p *place) pause(w *waiter, res driver.Result, now time.Duration) time.Duration {
	if !w.r.opt.paced || now >= w.next {
		w.attempts++
		w.next = now + p.interval(w, res.Blocker)
	}
	pause := w.next - now
	if p.ask.QueueTTL > 0 {
		pause = min(pause, p.ask.QueueTTL/3)
	}
	if res.Retry > 0 && res.Retry < pause {
		pause = min(pause, res.Retry+backoff.Jitter(2*time.Millisecond)) // it ends by itself, and wakes nobody
	}
	return pause
}

// interval returns the time between the attempts of w.
func (p *place) interval(w *waiter, blocker driver.Claim) time.Duration {
	o := &w.r.opt
	switch {
	case o.paced:
	case p.foreign(blocker):
		return backoff.Pause(w.attempts, o.first, foreignPoll)
	case p.wake != nil:
		return backoff.Jitter(o.most)
	}
	return backoff.Pause(w.attempts, o.first, o.most)
}
