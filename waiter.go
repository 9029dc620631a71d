package distlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/backoff"
)

// A waiter is a call that waits.
type waiter struct {
	r     *request
	seq   uint64
	ready chan struct{} // closed when lease or err is set

	lease *Lease
	err   error
	left  chan error // with err: tells when nothing of the call is left in the store, or why something may be; nil: nothing is

	attempts int           // how many of them the store refused, or failed
	next     time.Duration // when the next one is due, if they are paced
	first    bool          // the runner asks in place of the call, which would have shown an error of the store
}

// refused counts an attempt that got nothing, and sets the time of the next one. It reports
// whether it was the last.
func (w *waiter) refused(now time.Duration) bool {
	w.attempts++
	w.next = now + backoff.Pause(w.attempts, w.r.opt.first, w.r.opt.most)
	return w.exhausted()
}

// retry waits until w is served or has made its attempts, or gives up when ctx ends.
func (l *Locker) retry(ctx context.Context, n *line, w *waiter) {
	for {
		select {
		case <-w.ready:
			return
		case <-ctx.Done():
			l.leave(ctx, n, w)
			return
		case <-time.After(l.attempt(n, w)):
		}
	}
}

// attempt makes the attempt of w that is due, if the store need not be asked: another call of this
// process holds the lock, or waits before w. It returns when to look again.
func (l *Locker) attempt(n *line, w *waiter) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, now := slices.Index(n.waiters, w), l.clock.Awake()
	switch {
	case at < 0 || now < w.next:
	case at == 0 && !n.taken(): // the runner makes it
		return w.r.opt.first
	case w.refused(now):
		n.waiters = slices.Delete(n.waiters, at, at+1)
		n.fail(w, n.inTheWay(w, at))
		l.tidy(n)
	}
	return max(w.next-now, w.r.opt.first)
}

// exhausted reports whether w has made all the attempts that it may make.
func (w *waiter) exhausted() bool {
	return w.r.opt.maxAttempts > 0 && w.attempts >= w.r.opt.maxAttempts
}

func (w *waiter) give(lease *Lease) {
	w.lease = lease
	close(w.ready)
}

// wait waits for w's turn. It is called with the lock held and returns without.
func (l *Locker) wait(ctx context.Context, n *line, w *waiter) (*Lease, error) {
	w.ready = make(chan struct{})
	if w.err = w.r.tooHeavy(); w.err != nil { // since a resize, which came after the call and before this
		close(w.ready)
	} else if w.attempts == 0 && !w.first && w.refused(l.clock.Awake()) {
		w.err = n.inTheWay(w, len(n.waiters))
		close(w.ready)
	} else {
		at, _ := slices.BinarySearchFunc(n.waiters, w.seq, func(x *waiter, seq uint64) int { return cmp.Compare(x.seq, seq) })
		n.waiters = slices.Insert(n.waiters, at, w)
	}
	l.tidy(n)
	l.mu.Unlock()
	told := false
	defer func() {
		if !told { // an observer panicked
			l.leave(ctx, n, w)
			if w.lease != nil {
				w.lease.unless(ctx, &told)
			}
		}
	}()
	began := w.r.tellWaiting(ctx, l.clock)
	told = true

	d := l.detect(ctx, n, w)
	if w.r.opt.maxAttempts > 0 {
		l.retry(ctx, n, w)
	} else {
		select {
		case <-w.ready:
		case <-ctx.Done():
			l.leave(ctx, n, w)
		}
	}
	if removed := d.Stop(); removed != nil { // notices that stay end by themselves
		_, _ = await(ctx, removed, 2*withdrawLimit, l.graceOf(w.r))
	}
	if w.err != nil {
		if err := w.vacate(ctx, l.graceOf(w.r)); err != nil {
			if op, ok := w.err.(*OpError); ok { //nolint:errorlint // this very one: others have to do with others too
				unsure := *op
				unsure.Unknown = true
				w.err = &unsure
			}
			w.err = errors.Join(w.err, err)
		}
		now := l.clock.Awake()
		w.r.tell(ctx, Event{Type: EventRefused, Took: now - w.r.began, Wait: now - began, Waited: true, Err: w.err})
		return nil, w.err
	}
	return l.welcome(ctx, w.lease, Event{Wait: max(0, w.lease.since-began), Waited: true}), nil
}

// leave takes w out of the line because its context is over, unless it was served at the same
// moment.
func (l *Locker) leave(ctx context.Context, n *line, w *waiter) {
	cause := context.Cause(ctx) // before the lock is taken: to look at a lease's context may end the lease
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(n.waiters, w)
	if at < 0 {
		return
	}
	n.waiters = slices.Delete(n.waiters, at, at+1)
	n.fail(w, withCause(n.inTheWay(w, at), cause))
	if first := n.first(); at == 0 && n.running && first != nil && first.r.opt.paced {
		n.shake() // the runner may sleep longer than this one wants
	}
	l.tidy(n)
}

// vacate returns when the place in the store's line is given up, if nobody is left to wait
// there, and at the latest after withdrawLimit, or the grace of the request after the end of ctx:
// the runner goes
// on with it. An error says that something may be left.
func (w *waiter) vacate(ctx context.Context, grace func() time.Duration) error {
	if w.left == nil {
		return nil
	}
	err, ok := await(ctx, w.left, withdrawLimit, grace)
	if !ok {
		err = errNoAnswer
	}
	if err == nil {
		return nil
	}
	return &OpError{Op: "withdraw", Name: w.r.name, Unknown: true, Err: err}
}

var errNoAnswer = errors.New("the store did not answer in time")

// inTheWay says why w, at a position in line, was not served: who holds the lock, or what is
// wrong with the store. The store answers the first in line; about a turn of this
// process it need not be asked.
func (n *line) inTheWay(w *waiter, at int) error {
	e := HeldError{Name: w.r.name}
	if n.held != nil {
		e = n.held.now()
	}
	for _, t := range n.turns {
		if t.lease != nil {
			e.Holder, e.Fence = t.r.opt.holder, t.lease.fence
			e.Held, e.Left = t.l.clock.Awake()-t.lease.since, max(0, t.hold.Left())
		}
	}
	e.Ahead += at
	switch {
	case n.held != nil || len(n.turns) > 0:
		return errors.Join(&e, n.failed)
	case n.failed != nil:
		return n.failed // nobody ever said that it is held
	default: // a call of this process is asking
		return &OpError{Op: "acquire", Name: w.r.name, Err: errNoAnswer}
	}
}

// fail ends the wait of w, which is out of the line by now, with an error. If the runner has done for it what nobody else wants, the call
// waits until that is undone: see vacate. It is noted here and not by the call, which may come too late to be told what is left.
// The lock is held.
func (n *line) fail(w *waiter, err error) {
	w.err = err
	if n.running && n.idle() && (n.first() == nil || w.r.same(n.task)) {
		w.left = make(chan error, 1)
		n.leavers = append(n.leavers, w.left)
		n.shake()
	}
	close(w.ready)
}

// dissolve sends all waiters home. The lock is held.
func (n *line) dissolve(err error) {
	all := n.waiters
	n.waiters = nil
	for _, w := range all {
		n.fail(w, err)
	}
}
