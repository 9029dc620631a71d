package distlock

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDeadlock says that the call waited for itself: others wait for what its context holds, and it for what they hold, in a circle.
// It is the one of them that is told, and the others go on when it has given back what it holds. It is an ErrHeld too: the caller
// got nothing. The error is a *DeadlockError.
//
// A party to it is a call whose context was made by Lease.Context, Do or one of their kin, and holds those leases. One that
// asks for what its own context holds is told at once. One that waits in a circle with others, of any process, is told within two seconds, on a
// store that has a line and stores values; on others the calls wait until their contexts end.
var ErrDeadlock = errors.New("distlock: deadlock")

// A DeadlockError says who waits for whom. It is ErrDeadlock.
type DeadlockError struct {
	Name  string // what was asked for
	Cycle []Task // whoever takes part, the caller first; each holds what the one before it waits for, if there are no branches
	Err   error  // what was in the way: a *HeldError
}

// A Task is one that takes part in a deadlock.
type Task struct {
	Holder string
	Waits  Claim   // what it waits for; Held: for how long
	Holds  []Claim // what of its leases is in the way of others
}

// String says in a few words what the party holds and waits for.
func (p Task) String() string {
	var holds []string
	for _, c := range p.Holds {
		holds = append(holds, c.title())
	}
	return fmt.Sprintf("%s holds %s and waits for %s", label(p.Holder), strings.Join(holds, ", "), p.Waits.title())
}

// title names the lock of a claim.
func (c Claim) title() string {
	if c.Kind == "" {
		return quote(c.Name)
	}
	return fmt.Sprintf("%s (%s)", quote(c.Name), c.Kind)
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

// Report tells the same as Error for a terminal: on several lines, with how long each holds and waits.
func (e *DeadlockError) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock: %d wait for each other\n", len(e.Cycle))
	if len(e.Cycle) == 1 {
		b.Reset()
		b.WriteString("deadlock: one waits for itself\n")
	}
	for i, p := range e.Cycle {
		told := ""
		if i == 0 {
			told = " (told)"
		}
		fmt.Fprintf(&b, "  %s%s\n", label(p.Holder), told)
		for _, c := range p.Holds {
			fmt.Fprintf(&b, "    holds     %s for %v", c.title(), round(c.Held))
			if c.Fence > 0 {
				fmt.Fprintf(&b, ", fence %d", c.Fence)
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "    waits for %s for %v\n", p.Waits.title(), round(p.Waits.Held))
	}
	return b.String()
}

// Is makes a DeadlockError an ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Unwrap gives what was in the way.
func (e *DeadlockError) Unwrap() error { return e.Err }
