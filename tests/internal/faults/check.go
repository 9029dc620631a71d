package faults

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
)

// ErrTooLittle says that a run has no violation, but too little happened in it for a verdict.
var ErrTooLittle = errors.New("too little was tested")

// A Verdict is the result of the checks.
type Verdict struct {
	Grants, Waits, Unknown int
	Operations             int            // of the clients
	Unexplained            int            // operations with an unknown outcome that met no fault
	Faults                 map[string]int // the faults that were made, by kind
	OverHold               int            // faults that met a holder
	Overlap                time.Duration  // of conflicting holders; below 0: the shortest time between two
	LostPlain              int            // updates that counters without a fence lost
	Fenced                 int            // updates that counters with a fence accepted
	Losses                 int            // losses that were reported to holders
	Unpromised             int            // violations that are allowed under the faults that came
	Keys                   int            // keys that were checked against everything
}

func (v *Verdict) String() string {
	var kinds []string
	for k, n := range v.Faults {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(kinds)
	return fmt.Sprintf("%d grants on %d keys, %d waits, %d operations, %d unknown (%d without a fault), %d losses; overlap %v; %d faults over a hold (%s); "+
		"fenced updates %d, lost 0; plain updates lost %d; not promised and seen %d",
		v.Grants, v.Keys, v.Waits, v.Operations, v.Unknown, v.Unexplained, v.Losses, v.Overlap.Round(time.Microsecond), v.OverHold, strings.Join(kinds, ", "),
		v.Fenced, v.LostPlain, v.Unpromised)
}

// rules returns the rules for real time. The bounds are those of the promises, on a busy machine:
// stalls of the machine are known and extend the bounds.
func (r *Run) rules() history.Rules {
	clients := time.Duration(3 * r.Processes)
	return history.Rules{
		Early:     r.Early,
		Tolerance: 500 * time.Millisecond, // how late a thread may be on a busy machine, while others of its process run
		Gap:       torture.Gap,
		Stuck:     2*clients*r.TTL + 10*time.Second,
		HandOver:  3 * time.Second,                                // the longest pause between two attempts is a second
		Takeover:  r.TTL/10 + r.Late + 3*time.Second,              // the margin, and the same
		Heal:      r.TTL + r.Late + 3*time.Second + 2*time.Second, // queue entries of dead processes expire after three seconds
	}
}

// Check checks the run, and includes the errors that other checks found: violations, and
// [ErrTooLittle]. An error describes the violations, and the folder of the history and its
// pictures.
func (r *Run) Check(min history.Minimums, found ...error) (*Verdict, error) {
	// Stalls are an excuse, and this package did not produce them: they do not count as faults.
	bare := history.Check(r.History, history.Rules{})
	v := &Verdict{
		Grants: bare.Grants, Waits: bare.Waits, OverHold: bare.FaultsOverHold, LostPlain: bare.LostPlain,
		Faults: map[string]int{},
	}
	for i := range r.History.Ops {
		switch op := &r.History.Ops[i]; {
		case op.Kind == history.Fault:
			v.Faults[op.What]++
		case op.Kind == history.Lost:
			v.Losses++
		case op.Kind == history.Write && op.Outcome == history.Done:
			v.Fenced++
		}
	}
	whole := &history.History{Ops: append(slices.Clone(r.History.Ops), r.stalls...), End: r.History.End}
	v.Operations, v.Unknown, v.Unexplained = unknown(whole, r.TTL)
	sure, met := r.split(whole)

	dir, err := os.MkdirTemp("", fmt.Sprintf("distlock-proof-%s-seed-%d-", r.Name, r.Seed))
	if err != nil {
		return v, err
	}
	rules := r.rules()
	search := history.Search{Timeout: max(30*time.Second, r.Time), Dir: dir, Name: r.run()}
	sureVerdict, err := r.verify(sure, rules, search)
	v.Overlap, v.Keys = sureVerdict.Overlap, len(keys(sure))
	wrong, short := sorted(append(slices.Clone(r.wrong), found...))
	errs := append([]error{promised(err)}, wrong...)
	for _, m := range met {
		weak := history.Check(m.History, rules)
		for _, x := range weak.Violations {
			if slices.Contains(m.not, x.Invariant) {
				v.Unpromised++
			} else if x.Invariant != history.Minimum {
				errs = append(errs, fmt.Errorf("after a fault under which this is promised: %v", x))
			}
		}
	}
	if v.Overlap > 0 {
		errs = append(errs, fmt.Errorf("there were two holders for %v", v.Overlap))
	}
	// The end of a short run leaves a few unknown outcomes. Calls that go to a server together,
	// behind the call of a client in trouble, are open together. The nodes of a majority have
	// little time on a busy machine: then the run has no verdict.
	if v.Unexplained*20 > max(v.Operations, 60) {
		short = append(short, fmt.Errorf("%w: %d of %d operations have an unknown outcome and met no fault: more than one in twenty",
			ErrTooLittle, v.Unexplained, v.Operations))
	}
	if r.Left != "" {
		errs = append(errs, fmt.Errorf("left behind: %s", r.Left))
	}
	err = errors.Join(errs...)
	if err == nil {
		err = errors.Join(append(short, v.enough(min))...)
	}
	if err != nil {
		return v, fmt.Errorf("%s, seed %d: %w\nits history is in %s", r.Name, r.Seed, errors.Join(err, r.keep(dir, whole, err.Error())), dir)
	}
	return v, os.RemoveAll(dir)
}

// sorted separates violations from ErrTooLittle. It keeps only the first of many violations.
func sorted(found []error) (wrong, short []error) {
	const shown = 10
	for _, err := range found {
		switch {
		case errors.Is(err, ErrTooLittle):
			short = append(short, err)
		case err != nil:
			wrong = append(wrong, err)
		}
	}
	if more := len(wrong) - shown; more > 0 {
		wrong = append(wrong[:shown:shown], fmt.Errorf("and %d more", more))
	}
	return wrong, short
}

// unknown counts the operations of clients, those with an unknown outcome, and those of them that
// no fault explains. The next operation may notice a connection that a fault broke, within a TTL.
func unknown(h *history.History, ttl time.Duration) (all, unknown, unexplained int) {
	var faults []*history.Op
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Fault {
			faults = append(faults, op)
		}
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		switch op.Kind {
		case history.Fault, history.Lost, history.Gone, history.Trust: // no requests
			continue
		}
		if all++; op.Outcome != history.Unknown {
			continue
		}
		unknown++
		if op.What == history.GivenUp {
			continue // given up by its caller
		}
		if !slices.ContainsFunc(faults, func(f *history.Op) bool {
			return (f.Client == "" || f.Client == op.Client) && f.Call.At <= op.Return.At && f.Return.At+ttl >= op.Call.At
		}) {
			unexplained++
		}
	}
	return all, unknown, unexplained
}

// enough returns an error for each minimum that was not reached.
func (v *Verdict) enough(min history.Minimums) error {
	var errs []error
	short := func(got, least int, what string) {
		if got < least {
			errs = append(errs, fmt.Errorf("%w: %d %s, and %d are needed for a verdict", ErrTooLittle, got, what, least))
		}
	}
	short(v.Grants, min.Grants, "grants")
	short(v.Waits, min.ContendedWaits, "contended waits")
	short(v.OverHold, min.FaultsOverHold, "faults over a hold")
	return errors.Join(errs...)
}

func (r *Run) verify(h *history.History, rules history.Rules, s history.Search) (*history.Verdict, error) {
	if r.NoModel {
		v := history.Check(h, rules)
		return v, v.Err()
	}
	return history.Verify(h, rules, s)
}

// promised drops a failure that says only that too little happened: that is decided for the whole
// run.
func promised(err error) error {
	var f *history.Failure
	if !errors.As(err, &f) {
		return err
	}
	if len(f.Count) == 1 && f.Count[history.Minimum] > 0 {
		return nil
	}
	return err
}

// A met contains the keys that were in use during a fault under which less is promised.
type met struct {
	*history.History
	not []history.Invariant
}

// split separates the keys of a history by the promises for them.
func (r *Run) split(h *history.History) (sure *history.History, weak []met) {
	of := map[string]int{} // by key: the window that it met, from 1
	for i := range h.Ops {
		op := &h.Ops[i]
		end := op.Return.At
		if end == 0 {
			end = h.End
		}
		for n, w := range r.weak {
			// A claim outlives the operations on it: by its trust, and a TTL of the store.
			if op.Kind != history.Fault && (w.client == "" || w.client == op.Client) && op.Call.At < w.to && max(end, op.Until)+r.TTL > w.from {
				of[op.Key] = n + 1
			}
		}
	}
	parts := make([]*history.History, len(r.weak)+1)
	for i := range parts {
		parts[i] = &history.History{End: h.End}
	}
	for _, op := range h.Ops {
		if op.Kind == history.Fault {
			for _, p := range parts {
				p.Ops = append(p.Ops, op)
			}
			continue
		}
		p := parts[of[op.Key]]
		p.Ops = append(p.Ops, op)
	}
	for i, w := range r.weak {
		weak = append(weak, met{history.Merge(parts[i+1]), w.not})
	}
	return history.Merge(parts[0]), weak // Merge renumbers the events
}

// keys returns the number of operations on each key.
func keys(h *history.History) map[string]int {
	seen := map[string]int{}
	for i := range h.Ops {
		seen[h.Ops[i].Key]++
	}
	delete(seen, "")
	return seen
}
