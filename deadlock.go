package distlock

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDeadlock says that a call would wait for ever: it waits for a lock whose holder waits,
// directly or through others, for a lock that the context of the call holds. One call of such a
// cycle fails, and the others continue when it has released its locks. The error is an [ErrHeld]
// too: the caller got nothing. It is a [*DeadlockError].
//
// A call takes part with the leases that its context carries: a context that was made by
// [Lease.Context], [Locker.Do] and the like. A call for a lock that its own context holds fails at
// once. A cycle of several calls, of any process, is found within two seconds on a store that can
// queue and stores values. On other stores the calls wait until their contexts end.
var ErrDeadlock = errors.New("distlock: deadlock")

// A DeadlockError says who waits for whom. It is ErrDeadlock.
type DeadlockError struct {
	Kind  Kind
	Name  string // of the lock
	Cycle []Task // the caller first; each task holds what the one before it waits for, if there are no branches
	Err   error  // who holds the lock: a *HeldError
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
	var parts []string
	for _, p := range e.Cycle {
		parts = append(parts, p.String())
	}
	if len(parts) == 1 {
		parts[0] += ": it waits for itself"
	}
	return "distlock: deadlock: " + strings.Join(parts, "; ")
}

// Report returns the same as Error for a terminal: on several lines, with how long each task holds
// and waits.
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

// Is makes a DeadlockError an ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Unwrap returns who holds the lock.
func (e *DeadlockError) Unwrap() error { return e.Err }
