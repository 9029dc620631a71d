package distlock

import (
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
)

// A line is what this process has to do with one key: the turns it holds and the
// calls that wait. It exists as long as there is anything of that.
//
// A call that finds nobody before it asks the store itself. All others wait here, in order of arrival,
// and get the lock in one of two ways: from a turn of this process that ends (see
// turn), or from the runner: a goroutine that asks the store for the first in line, keeps
// one place in the store's line for all of them, and ends when nobody waits.
type line struct {
	key     string
	turns   []*turn   // the claims of this process on the key
	only    [1]*turn  // the memory of turns, for the first of them
	waiters []*waiter // in order of arrival
	asking  int       // calls that are asking the store themselves
	closed  bool      // one of them asks for a claim that leaves room for nobody
	rest    bool      // the key was given back for the sake of others: they shall ask first

	held   *HeldError // the store's last refusal since this process had the key
	failed error      // its last error, if that came after the refusal

	running   bool
	task      *request           // what the runner asks the store for, or takes back; nil: neither
	placed    *request           // what the runner's place is for; nil: it has none
	owner     string             // of that place
	spares    []*turn            // turns that the runner shall prolong for the first waiter, or end
	changed   chan struct{}      // tells the runner to look again
	interrupt context.CancelFunc // cuts the runner's call short, if it is in one
	leavers   []chan error       // told when the runner has seen that the line changed
}

// get gets a lease for a request: tries, or waits.
func (l *Locker) get(ctx context.Context, r *request) (*Lease, error) {
	if err := l.reenters(ctx, r); err != nil {
		return nil, err
	}
	if r.opt.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.opt.wait)
		defer cancel()
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		r.tell(ctx, Event{Type: EventRefused, Took: l.clock.Awake() - r.began, Err: ErrClosed})
		return nil, ErrClosed
	}
	n := l.line(r)
	l.seq++
	seq := l.seq
	if r.opt.wait != 0 {
		may := n.mayAsk(r)
		if !may || l.features.Queue && l.crowds.has(r.Key, r.began) {
			return l.wait(ctx, n, &waiter{r: r, seq: seq, first: may})
		}
	}
	n.begin(r)
	l.wg.Add(1)
	defer l.wg.Done()
	l.mu.Unlock()

	answered := false
	defer func() {
		if !answered { // an observer panicked
			l.mu.Lock()
			n.finish(r)
			l.tidy(n)
			l.mu.Unlock()
		}
	}()
	id, res, sent, err := l.try(ctx, r)
	answered = true

	l.mu.Lock()
	n.finish(r)
	var lease *Lease
	switch {
	case err != nil:
	case res.Granted:
		lease = l.grant(n, r, id, res, sent, 0)
	case l.closed:
		err = ErrClosed
	case r.opt.wait == 0 || r.opt.maxAttempts == 1 || res.Blocker.Kept:
		err = r.heldError(res)
	default:
		n.held, n.failed = r.heldError(res), nil
		l.crowds.note(r.Key, l.clock.Awake())
		w := &waiter{r: r, seq: seq}
		w.refused(l.clock.Awake())
		return l.wait(ctx, n, w)
	}
	l.tidy(n)
	l.mu.Unlock()
	if err == nil && lease == nil {
		err = l.reject(ctx, r, id)
	}
	if err != nil {
		r.tell(ctx, Event{Type: EventRefused, Took: l.clock.Awake() - r.began, Err: err})
		return nil, err
	}
	return l.welcome(ctx, lease, Event{}), nil
}

// reject gives back a claim that was granted too late to be of use.
func (l *Locker) reject(ctx context.Context, r *request, id driver.ID) error {
	err := l.undo(ctx, r, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && err == nil {
		return ErrClosed
	}
	return &OpError{Op: "acquire", Name: r.name, Unknown: err != nil, Err: errTooLate}
}

var errTooLate = errors.New("the store's answer came too late to be trusted")

// welcome tells of a new lease, with what e says about the wait for it, and returns it.
func (l *Locker) welcome(ctx context.Context, lease *Lease, e Event) *Lease {
	if lease.r.opt.observe != nil { // Left reads system clocks
		told := false
		defer lease.unless(ctx, &told)
		e.Type, e.Took, e.Left = EventGranted, lease.since-lease.r.began, lease.t.hold.Left()
		e.Handed, e.Behind = lease.handed, lease.behind
		lease.tell(ctx, e)
		told = true
	}
	return lease
}

// unless gives the lease back unless the caller got it: an observer that panics on the way keeps it from that.
func (l *Lease) unless(ctx context.Context, got *bool) {
	if !*got {
		_ = l.discard(ctx)
	}
}

// What follows is called with the lock held.

// line returns the line of a request's key.
func (l *Locker) line(r *request) *line {
	n := l.lines[r.Key]
	if n == nil {
		n = r.newLine()
		l.lines[r.Key] = n
	}
	return n
}

// tidy starts the runner if there is work for it, tells it if its place is of no more use, and
// forgets a line that is empty. It is called after every change.
func (l *Locker) tidy(n *line) {
	w := n.first()
	switch {
	case n.running:
		if n.placed != nil && (w == nil || !w.r.same(n.placed)) {
			n.shake()
		}
	case len(n.spares) > 0, w != nil && !n.taken():
		n.running = true
		n.changed = make(chan struct{}, 1)
		l.wg.Add(1)
		go l.run(n)
	case w == nil && len(n.turns)+n.asking == 0:
		if l.lines[n.key] == n {
			delete(l.lines, n.key)
		}
	}
}

// mayAsk reports whether a call may ask the store itself: nobody waits before it, and
// nothing of this process is surely in its way.
func (n *line) mayAsk(r *request) bool {
	return len(n.waiters) == 0 && !n.taken() && (n.asking == 0 || !r.alone())
}

// taken reports whether this process holds the key, or asks for it, in a way that leaves no
// room: then the store need not be asked.
func (n *line) taken() bool {
	if n.closed {
		return true
	}
	return len(n.turns) > 0 && n.turns[0].r.alone() // if one of them leaves no room, it is the only one
}

// begin notes that a call asks the store itself.
func (n *line) begin(r *request) {
	n.asking++
	n.closed = n.closed || r.alone() && r.opt.wait != 0
}

// finish notes that it no longer does.
func (n *line) finish(r *request) {
	n.asking--
	if r.alone() && r.opt.wait != 0 {
		n.closed = false
	}
}

// first returns the first waiter, or nil.
func (n *line) first() *waiter {
	if len(n.waiters) == 0 {
		return nil
	}
	return n.waiters[0]
}

// pop takes the first waiter out of the line.
func (n *line) pop() {
	n.waiters[0] = nil
	n.waiters = n.waiters[1:]
}

// idle reports whether what the runner does is of no use to the first waiter.
func (n *line) idle() bool {
	w := n.first()
	return w == nil || n.task != nil && !w.r.same(n.task)
}

// shake makes the runner look at the line again.
func (n *line) shake() {
	if n.interrupt != nil && n.idle() {
		n.interrupt()
	}
	select {
	case n.changed <- struct{}{}:
	default: // it will look already
	}
}

// seen tells those who left that the runner has taken note, and what may be left.
func (n *line) seen(left error) {
	for _, c := range n.leavers {
		c <- left
	}
	n.leavers = nil
}
