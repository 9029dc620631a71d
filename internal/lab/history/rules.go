package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An Invariant names a broken invariant: see the package comment.
type Invariant string

// The invariants.
const (
	I1      Invariant = "I1"
	I2      Invariant = "I2"
	I3      Invariant = "I3"
	I4      Invariant = "I4"
	I5      Invariant = "I5"
	I6      Invariant = "I6"
	I7      Invariant = "I7"
	I9      Invariant = "I9"
	I10     Invariant = "I10"
	Minimum Invariant = "M38"
	Model   Invariant = "model"
	Record  Invariant = "record" // the history itself is invalid
)

// Rules are the rules that a history is checked against. A bound of 0 is not checked.
type Rules struct {
	// Tolerance is how long the holder may run after the end of trust until the loss is reported.
	// It is 0 in virtual time, and the delay of a timer on a real machine.
	Tolerance time.Duration

	// Gap is the longest time between two pauses of a client in which the client may not have run
	// at all. It is 0 in virtual time, and the longest unrecorded scheduler stall on a real
	// machine.
	Gap time.Duration

	Stuck    time.Duration // I5: from the end of the last fault until a waiter is granted or leaves
	HandOver time.Duration // I6, I7: from a release until the next grant, if there is a waiter
	Takeover time.Duration // I6, I7: from the end of trust without a release until the next grant
	Heal     time.Duration // I7: from the end of any fault until the next grant; at least HandOver

	// Early says that a claim may end before its time by itself, such as a claim that ends with a
	// connection. Then I9 is not checked, and a claim that is found to be gone may have ended at
	// any time since its grant.
	Early bool

	NoFences bool // the store has none: I1 and I2 are not checked

	Min Minimums
}

// Minimums are the numbers of events that a meaningful verdict needs. One grant and one contended
// wait are always required.
type Minimums struct {
	Grants         int
	ContendedWaits int // acquires that were refused and waited
	FaultsOverHold int // faults that affected a client in one of its spans
}

// A Violation is one event that breaks an invariant.
type Violation struct {
	Invariant Invariant
	Key       string
	What      string // a sentence
	Ops       []Op   // the operations in question
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", v.Invariant)
	if v.Key != "" {
		fmt.Fprintf(&b, " on %q", v.Key)
	}
	fmt.Fprintf(&b, ": %s", v.What)
	for i := range v.Ops {
		fmt.Fprintf(&b, "\n\t%v", &v.Ops[i])
	}
	return b.String()
}

// shown is the number of violations of one invariant that are kept. A broken lock breaks the same
// invariant again and again.
const shown = 10

// A Verdict is the result of a check.
type Verdict struct {
	Violations []Violation       // the first few of each invariant
	Count      map[Invariant]int // all of them

	Grants, Waits, FaultsOverHold int // see Minimums
	Unknown                       int // acquires and releases with an unknown outcome

	// Overlap is the longest time for which two conflicting holds existed at once. Below 0 it is
	// the shortest time between one hold and the next. It is 0 if no grant followed another.
	Overlap   time.Duration
	LostPlain int // updates that plain registers lost: no violation, but the reason for fences
}

// Err returns nil if there was no violation, and a [*Failure] otherwise.
func (v *Verdict) Err() error {
	if len(v.Violations) == 0 {
		return nil
	}
	return &Failure{Verdict: v}
}

func (v *Verdict) add(i Invariant, key string, ops []*Op, format string, args ...any) {
	if v.Count == nil {
		v.Count = map[Invariant]int{}
	}
	v.Count[i]++
	if v.Count[i] > shown {
		return
	}
	x := Violation{Invariant: i, Key: key, What: fmt.Sprintf(format, args...)}
	for _, op := range ops {
		if op != nil {
			x.Ops = append(x.Ops, *op)
		}
	}
	v.Violations = append(v.Violations, x)
}

// A Failure is the error of a history that breaks a rule.
type Failure struct {
	*Verdict
	Files []string // the files of the history and its pictures
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString("history: ")
	for i, name := range slices.Sorted(maps.Keys(f.Count)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d x %s", f.Count[name], name)
	}
	for _, v := range f.Violations {
		fmt.Fprintf(&b, "\n%v", v)
	}
	for _, file := range f.Files {
		fmt.Fprintf(&b, "\nwritten: %s", file)
	}
	return b.String()
}
