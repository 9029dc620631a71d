package distlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// ErrDeadlock says that a call would wait for ever: it waits for a lock whose holder waits,
// directly or through others, for a lock that the context of the call holds. One call of such a
// cycle fails, and the others continue when it has released its locks. The error is no [ErrHeld]:
// to try again before the locks are released is of no use. It is a [*DeadlockError].
//
// A call takes part with the leases that its context carries: a context that was made by
// [Lease.Context], [Locker.Do] and the like. A call for a lock that its own context holds fails at
// once. A cycle of several calls, of any process, is found within two seconds on a store that can
// queue and stores values. On other stores the calls wait until their contexts end.
var ErrDeadlock = errors.New("distlock: deadlock")

// A DeadlockError says who waits for whom. It is [ErrDeadlock].
type DeadlockError struct {
	Kind  Kind
	Name  string // of the lock
	Cycle []Task // the caller first; each task holds what the one before it waits for, if there are no branches
	Err   error  // who holds the lock: a *HeldError, which errors.Is and errors.As do not find
}

// A Task is a call that takes part in a deadlock, with the leases of its context.
type Task struct {
	Holder string
	Waits  Claim   // the lock that it waits for; Held: for how long
	Holds  []Claim // those of its locks that others wait for
}

// String returns in a few words what the task holds and waits for.
func (p Task) String() string {
	var holds []string
	for _, c := range p.Holds {
		holds = append(holds, c.Kind.title(c.Name))
	}
	return fmt.Sprintf("%s holds %s and waits for %s", label(p.Holder), strings.Join(holds, ", "), p.Waits.Kind.title(p.Waits.Name))
}

func (e *DeadlockError) Error() string {
	var texts []string
	for _, p := range e.Cycle {
		texts = append(texts, p.String())
	}
	if len(texts) == 1 {
		texts[0] += ": it waits for itself"
	}
	return "distlock: deadlock: " + strings.Join(texts, "; ")
}

// Report returns the same as [DeadlockError.Error] for a terminal: on several lines, with how long
// each task holds and waits.
func (e *DeadlockError) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock: %d wait for each other\n", len(e.Cycle))
	if len(e.Cycle) == 1 {
		b.Reset()
		b.WriteString("deadlock: one waits for itself\n")
	}
	for i, p := range e.Cycle {
		failed := ""
		if i == 0 {
			failed = " (its call failed)"
		}
		fmt.Fprintf(&b, "  %s%s\n", label(p.Holder), failed)
		for _, c := range p.Holds {
			fmt.Fprintf(&b, "    holds     %s for %v", c.Kind.title(c.Name), round(c.Held))
			if c.Fence > 0 {
				fmt.Fprintf(&b, ", fence %d", c.Fence)
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "    waits for %s for %v\n", p.Waits.Kind.title(p.Waits.Name), round(p.Waits.Held))
	}
	return b.String()
}

// Is makes a DeadlockError an [ErrDeadlock].
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

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
