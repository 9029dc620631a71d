package torture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
)

// A Verdict is the result of a run.
type Verdict string

// The verdicts.
const (
	Clean     Verdict = "clean"      // much happened, and no violation
	Violated  Verdict = "violated"   // there was a violation
	NotEnough Verdict = "not enough" // no violation was seen, and too little was tested for a verdict
)

// The events that a clean verdict needs.
const (
	minHolds  = 50
	minWaits  = 10
	minFaults = 3 // over a hold
)

// A Report describes the result of a run.
type Report struct {
	Verdict Verdict  `json:"verdict"`
	Why     []string `json:"why,omitempty"` // the reasons for NotEnough

	Exclusive int `json:"exclusive"` // holds
	Shared    int `json:"shared"`
	Counted   int `json:"counted"`
	Waits     int `json:"waits"` // holds and tries that had to wait

	Pauses   int `json:"pauses"`
	Kills    int `json:"kills"`
	Cuts     int `json:"cuts"`
	Links    int `json:"linkFaults"`
	OverHold int `json:"faultsOverHold"`

	Losses  int           `json:"losses"`
	Unknown int           `json:"unknown"` // acquires and releases without an answer
	Stalls  time.Duration `json:"stalls"`  // how long the machine stopped clients by itself, at most

	Count      map[history.Invariant]int `json:"violations"`
	Violations []Violation               `json:"examples,omitempty"`
	Files      []string                  `json:"files,omitempty"`
}

// A Violation is one event that breaks a rule.
type Violation struct {
	Rule    history.Invariant `json:"rule"`
	Meaning string            `json:"law"`
	Key     string            `json:"key,omitempty"`
	What    string            `json:"what"`
	Ops     []string          `json:"ops,omitempty"`
}

// Holds returns the number of holds.
func (r *Report) Holds() int { return r.Exclusive + r.Shared + r.Counted }

// Total returns the number of violations.
func (r *Report) Total() (n int) {
	for _, c := range r.Count {
		n += c
	}
	return n
}

// Meaning returns the meaning of a rule as a sentence.
func Meaning(rule history.Invariant) string {
	return map[history.Invariant]string{
		history.I2:     "fences rise from hold to hold",
		history.I3:     "two conflicting locks are never held at once",
		history.I4:     "a loss is reported to the holder in time",
		history.I5:     "every waiter is granted the lock, or leaves",
		history.I6:     "a lock with capacity goes to a waiter",
		history.I7:     "a lock that became free is granted soon",
		history.I9:     "only its owner ends a hold",
		history.I10:    "every answer is of a known kind",
		history.Model:  "the answers fit some order in which a lock could have given them",
		history.Record: "the history is complete",
	}[rule]
}

// Check checks the history and returns the report. A failing history, and pictures of it, are
// written to the folder dir.
func (r *Run) Check(dir string) (*Report, error) {
	h := r.History()
	rep := r.tally(h)
	// Stalls are an excuse, and this package did not produce them: they do not count as faults.
	rep.OverHold = history.Check(h, history.Rules{}).FaultsOverHold
	h.Ops = append(h.Ops, r.stalled...)

	search := history.Search{Timeout: max(10*time.Second, r.plan.Time), Dir: dir, Name: fmt.Sprint("seed-", r.plan.Seed)}
	v, err := history.Verify(h, r.rules(), search)
	var f *history.Failure
	if errors.As(err, &f) {
		rep.Files = f.Files
	} else if err != nil {
		return nil, err
	}
	rep.Waits, rep.Unknown = v.Waits, v.Unknown
	rep.Count = maps.Clone(v.Count)
	delete(rep.Count, history.Minimum) // decide applies its own minimums
	for _, x := range v.Violations {
		if x.Invariant == history.Minimum {
			continue
		}
		out := Violation{Rule: x.Invariant, Meaning: Meaning(x.Invariant), Key: x.Key, What: x.What}
		for i := range x.Ops {
			out.Ops = append(out.Ops, x.Ops[i].String())
		}
		rep.Violations = append(rep.Violations, out)
	}
	rep.decide(r.plan)
	return rep, nil
}

// rules returns the rules for real time. The bounds on waiting are wide: this package tests
// correctness, and the benchmarks measure speed.
func (r *Run) rules() history.Rules {
	ttl := r.plan.TTL
	clients := time.Duration(perLink * (r.plan.Clients + r.plan.Processes))
	return history.Rules{
		Tolerance: ttl/10 + stallLeast + stallEdge,
		Gap:       Gap,
		Stuck:     2*clients*ttl + 10*time.Second,
		HandOver:  ttl + 10*time.Second,
		Takeover:  ttl + 10*time.Second,
		Heal:      ttl + 10*time.Second,
		NoFences:  !r.store.Features().Fence,
	}
}

// tally counts the events that package history does not count.
func (r *Run) tally(h *history.History) *Report {
	rep := &Report{Pauses: r.done[Pause], Kills: r.done[Kill], Cuts: r.done[Cut]}
	var planned []*history.Op // pauses
	for i := range h.Ops {
		op := &h.Ops[i]
		switch {
		case op.Kind == history.Fault:
			rep.Links++
			if op.What == history.Pause {
				planned = append(planned, op)
			}
		case op.Kind == history.Lost:
			rep.Losses++
		case op.Kind != history.Acquire || op.Outcome != history.Granted:
		case op.Limit != driver.Whole:
			rep.Counted++
		case op.Weight != driver.Whole:
			rep.Shared++
		default:
			rep.Exclusive++
		}
	}
	rep.Links -= rep.Pauses + rep.Kills + rep.Cuts
	by := map[string]time.Duration{}
	for _, op := range r.stalled {
		if !slices.ContainsFunc(planned, func(p *history.Op) bool {
			return p.Client == op.Client && p.Call.At < op.Return.At && op.Call.At < p.Return.At
		}) {
			by[op.Client] += op.Return.At - op.Call.At
		}
	}
	for _, d := range by {
		rep.Stalls = max(rep.Stalls, d)
	}
	return rep
}

// decide determines the verdict.
func (r *Report) decide(p *Plan) {
	if r.Total() > 0 {
		r.Verdict = Violated
		slices.SortStableFunc(r.Violations, func(a, b Violation) int { return weight(a.Rule) - weight(b.Rule) })
		return
	}
	need := func(got, least int, what string) {
		if got < least {
			r.Why = append(r.Why, fmt.Sprintf("%d %s, want %d", got, what, least))
		}
	}
	need(r.Holds(), minHolds, "holds")
	need(r.Waits, minWaits, "waits")
	need(r.OverHold, minFaults, "faults during a hold")
	if p.Clients > 0 {
		need(r.Cuts, 1, "cuts")
	}
	if p.Processes > 0 {
		need(r.Pauses, 1, "pauses")
		need(r.Kills, 1, "kills")
	}
	if r.Verdict = Clean; len(r.Why) > 0 {
		r.Verdict = NotEnough
	}
}

// weight sorts the most serious rules first.
func weight(rule history.Invariant) int {
	order := []history.Invariant{history.I3, history.I9, history.I2, history.I4}
	if i := slices.Index(order, rule); i >= 0 {
		return i
	}
	return len(order)
}
