package distlock

import (
	"context"
	"slices"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// Waits starts to look for a deadlock while a call waits, unless its context holds no leases, the
// store cannot say who waits, or it is for a rate limit: its claims end by themselves.
func (c *caller) Waits(ctx context.Context, w *queue.Waiter) (ended func() <-chan struct{}) {
	l := c.l
	if keyKind(c.Key) == KindRateLimit || !deadlock.Supported(&l.features) {
		return nil
	}
	var held []deadlock.Held
	for _, lease := range holdings(ctx) {
		owner := driver.Tag(lease.q.ID().Owner)
		held = append(held, deadlock.Held{Lease: lease, Key: lease.r.Key, Owner: owner, Fence: lease.q.Fence(), Since: lease.q.Since()})
	}
	if len(held) == 0 {
		return nil
	}
	config := deadlock.Config{Store: l.store, Now: l.clock.Awake, Key: names.Notice.Key}
	d := deadlock.Start(l.queue.Running(), config, held, &suspect{c, w}) //nolint:contextcheck // the notices are removed also when ctx has ended
	return d.Stop
}

// A suspect is a call that waits, as its detector sees it.
type suspect struct {
	c *caller
	w *queue.Waiter
}

// Begin has Close wait for the detector.
func (s *suspect) Begin() (end func()) { return s.c.l.queue.Enter() }

// Snapshot returns what the call waits for, and behind which other calls of the process.
func (s *suspect) Snapshot() (wait deadlock.Wait, waits bool) {
	p, waits := s.w.Position()
	if !waits {
		return wait, false
	}
	wait = deadlock.Wait{Key: p.Call.Key, Holder: p.Call.Holder, Demand: demand(p.Call), Entry: p.Entry}
	for _, before := range p.Before {
		if d := demand(before); d != wait.Demand && !slices.Contains(wait.Ahead, d) {
			wait.Ahead = append(wait.Ahead, d)
		}
	}
	return wait, true
}

func demand(c *queue.Call) deadlock.Demand {
	return deadlock.Demand{Weight: c.Weight, Limit: c.Bound()}
}

// Fail ends the wait with a DeadlockError, unless the call got its lease at the same moment, or has
// given up.
func (s *suspect) Fail(c *deadlock.Cycle) {
	s.w.Fail(func(blocked error) error {
		return &DeadlockError{Kind: keyKind(s.c.Key), Name: s.c.name, Cycle: tasks(c), Err: blocked}
	})
}

// tasks returns the tasks of a cycle as people see them.
func tasks(c *deadlock.Cycle) (out []Task) {
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
