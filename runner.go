package distlock

import (
	"cmp"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
)

// run is the runner of a line. It serves many calls and outlives each: the ctx is the locker's own.
//
//nolint:contextcheck // see above
func (l *Locker) run(n *line) {
	defer l.wg.Done()
	var p *place
	var left error // why something of this process may be left in the store
	for {
		l.mu.Lock()
		n.task = nil
		if p != nil {
			n.task = p.r
		}
		w := n.first()
		switch {
		case len(n.spares) > 0:
			left = cmp.Or(l.prolong(n), left)
			continue
		case p != nil && (w == nil || !w.r.same(p.r) || p.ctx.Err() != nil):
			n.placed = nil
			l.mu.Unlock()
			left = cmp.Or(p.giveUp(l), left)
			p = nil
			continue
		case w == nil, p == nil && n.taken():
			n.running = false
			n.seen(left)
			l.tidy(n)
			l.mu.Unlock()
			return
		}
		n.seen(left)
		left = nil
		if p == nil {
			p = l.newPlace(w.r)
		}
		n.task, n.placed, n.owner, n.interrupt = p.r, p.r, p.ask.Owner, p.leave
		p.ask.Limit = p.r.bound()
		p.seen = l.seq
		rest := n.rest
		n.rest = false
		l.mu.Unlock()
		if rest {
			n.sleep(nil, backoff.Jitter(2*w.r.opt.first))
			continue
		}
		if p.wake == nil {
			// Watch before the ask that follows, so that no wake-up falls in between.
			p.wake = driver.Watch(p.ctx, l.store, p.ask.ID)
		}
		granted, pause := l.ask(n, p, w)
		if granted {
			p.leave()
			p = nil
			continue
		}
		told := n.sleep(p.wake, pause)
		switch {
		case told.Granted && l.accept(n, p, told):
			p.leave()
			p = nil
		case p.forsaken(l):
			l.mu.Lock()
			n.placed = nil
			l.mu.Unlock()
			p.leave()
			p = nil
		}
	}
}

// sleep waits until the runner is notified by the store, or has to look again. It returns the
// notification, if it was the store.
func (n *line) sleep(wake <-chan driver.Wake, pause time.Duration) (told driver.Wake) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case told = <-wake:
	case <-n.changed:
	case <-timer.C:
	}
	return told
}
