package distlock

import (
	"context"
	"slices"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
)

// detect starts to look for a deadlock while w waits. It returns nil if the context holds no
// leases, if the store cannot say who waits, or for a rate limit: what that counts ends by itself.
func (l *Locker) detect(ctx context.Context, n *line, w *waiter) *deadlock.Detector {
	if k, _, _ := splitKey(w.r.Key); k == kindRate || !deadlock.Supported(&l.features) {
		return nil
	}
	var held []deadlock.Held
	for _, lease := range holdings(ctx) {
		owner := driver.Tag(lease.t.id.Owner)
		held = append(held, deadlock.Held{Lease: lease, Key: lease.r.Key, Owner: owner, Fence: lease.fence, Since: lease.since})
	}
	if len(held) == 0 {
		return nil
	}
	c := deadlock.Config{Store: l.store, Now: l.clock.Awake, Key: kindWait.key}
	return deadlock.Start(l.running, c, held, &suspect{l, n, w}) //nolint:contextcheck // the notices are removed also when ctx has ended
}

// A suspect is a call that waits, as its detector sees it.
type suspect struct {
	l *Locker
	n *line
	w *waiter
}

// Begin has Close wait for the detector.
func (s *suspect) Begin() (end func()) { return s.l.enter() }

// Snapshot returns what the call waits for, and behind which other calls of the process.
func (s *suspect) Snapshot() (wait deadlock.Wait, waits bool) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	at := slices.Index(s.n.waiters, s.w)
	if at < 0 {
		return wait, false
	}
	wait = deadlock.Wait{Key: s.w.r.Key, Holder: s.w.r.opt.holder, Demand: s.w.r.demand()}
	if s.n.placed != nil {
		wait.Entry = driver.Tag(s.n.owner)
	}
	for _, before := range s.n.waiters[:at] {
		if d := before.r.demand(); d != wait.Demand && !slices.Contains(wait.Ahead, d) {
			wait.Ahead = append(wait.Ahead, d)
		}
	}
	return wait, true
}

func (r *request) demand() deadlock.Demand {
	return deadlock.Demand{Weight: r.Weight, Limit: r.bound()}
}

// Fail ends the wait with a DeadlockError, unless the call was served at the same moment, or has
// given up.
func (s *suspect) Fail(c *deadlock.Cycle) {
	l, n, w := s.l, s.n, s.w
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(n.waiters, w)
	if at < 0 {
		return
	}
	n.waiters = slices.Delete(n.waiters, at, at+1)
	n.fail(w, &DeadlockError{Name: w.r.name, Cycle: parties(c), Err: n.inTheWay(w, at)})
	l.tidy(n)
}

// parties returns the tasks of a cycle as people see them.
func parties(c *deadlock.Cycle) (out []Task) {
	for _, t := range c.Tasks() {
		p := Task{Holder: t.Waits.Holder}
		p.Waits, _ = newClaim(t.Waits)
		for _, claim := range t.Holds {
			if held, ok := newClaim(claim); ok {
				p.Holds = append(p.Holds, held)
			}
		}
		out = append(out, p)
	}
	return out
}
