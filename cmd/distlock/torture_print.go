package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/distlock/distlock/internal/lab/torture"
)

// A tortureJSON is the JSON output of torture. Times are in seconds.
type tortureJSON struct {
	Store string `json:"store"`
	Seed  uint64 `json:"seed"`
	*torture.Report
	Stalls float64     `json:"stalls"`
	Notes  []string    `json:"notes,omitempty"`
	Plan   torturePlan `json:"plan"`
}

type torturePlan struct {
	Time      float64                 `json:"time"`
	TTL       float64                 `json:"ttl"`
	Clients   int                     `json:"clients"`
	Processes int                     `json:"processes"`
	Keys      int                     `json:"keys"`
	Rate      float64                 `json:"rate"`
	Faults    []tortureFault          `json:"faults"`
	Links     map[string]torture.Link `json:"links"`
}

type tortureFault struct {
	At   float64      `json:"at"`
	Who  string       `json:"who"`
	What torture.What `json:"what"`
	For  float64      `json:"for,omitempty"`
}

func newTortureJSON(store string, p *torture.Plan, r *torture.Report, notes []string) tortureJSON {
	plan := torturePlan{p.Time.Seconds(), p.TTL.Seconds(), p.Clients, p.Processes, p.Keys, p.Rate, nil, p.Links}
	for _, f := range p.Faults {
		plan.Faults = append(plan.Faults, tortureFault{f.At.Seconds(), f.Who, f.What, f.For.Seconds()})
	}
	return tortureJSON{store, p.Seed, r, r.Stalls.Seconds(), notes, plan}
}

func (t *tortureRun) print(p *torture.Plan, r *torture.Report) error {
	if t.asJSON {
		e := json.NewEncoder(t.out)
		e.SetIndent("", "  ")
		return e.Encode(newTortureJSON(t.redact(t.store), p, r, t.notes))
	}
	w := t.out
	fmt.Fprintf(w, "torture of %s for %v, seed %d\n", t.redact(t.store), p.Time, p.Seed)
	fmt.Fprintf(w, "  %d clients here, %d processes, %d names at a time, %g attempts a second, TTL %v\n\n",
		p.Clients, p.Processes, p.Keys, p.Rate, p.TTL)
	row := func(what string, n int, more string) {
		if more != "" {
			more = "   " + more
		}
		fmt.Fprintf(w, "  %-18s %7d%s\n", what, n, more)
	}
	row("holds", r.Holds(), fmt.Sprintf("%d exclusive, %d shared, %d counted", r.Exclusive, r.Shared, r.Counted))
	row("waits", r.Waits, "")
	row("faults", r.Pauses+r.Kills+r.Cuts+r.Links, fmt.Sprintf(
		"%d pauses, %d kills, %d cuts, %d lost, late or repeated messages", r.Pauses, r.Kills, r.Cuts, r.Links))
	row("  during a hold", r.OverHold, "")
	row("losses", r.Losses, "reported to their holders")
	row("unknown outcomes", r.Unknown, "")
	row("violations", r.Total(), "")
	if r.Stalls > 0 {
		t.notes = append(t.notes, fmt.Sprintf(
			"scheduler stalls stopped a client for up to %v in total, which does not count as a fault of the store", short(r.Stalls)))
	}
	fmt.Fprintln(w)
	t.printViolations(r)
	for _, n := range t.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	t.printFiles(r.Files)
	_, err := fmt.Fprintf(w, "verdict: %s\n", t.verdict(r))
	return err
}

// printViolations prints the first violation of each rule.
func (t *tortureRun) printViolations(r *torture.Report) {
	shown := map[string]bool{}
	for _, v := range r.Violations {
		if shown[string(v.Rule)] {
			continue
		}
		shown[string(v.Rule)] = true
		fmt.Fprintf(t.out, "VIOLATION of %s, %d times. The rule: %s\n", v.Rule, r.Count[v.Rule], v.Meaning)
		fmt.Fprintf(t.out, "  %s: %s\n", clean(v.Key), v.What)
		for _, op := range v.Ops {
			fmt.Fprintf(t.out, "    %s\n", clean(op))
		}
	}
	if len(r.Violations) > 0 {
		fmt.Fprintln(t.out)
	}
}

// printFiles prints the paths of the history and of the first picture. There is a picture for each
// name on which the model was violated.
func (t *tortureRun) printFiles(files []string) {
	pictures := 0
	for _, f := range files {
		if filepath.Ext(f) != ".html" {
			fmt.Fprintf(t.out, "the history: %s\n", f)
		} else if pictures++; pictures == 1 {
			fmt.Fprintf(t.out, "a picture of it: %s\n", f)
		}
	}
	if pictures > 1 {
		fmt.Fprintf(t.out, "  and %d more in the same folder\n", pictures-1)
	}
}

func (t *tortureRun) verdict(r *torture.Report) string {
	switch r.Verdict {
	case torture.Violated:
		return fmt.Sprintf("violated, %d times. --seed %d makes the same plan again", r.Total(), t.Seed)
	case torture.NotEnough:
		return "not enough: " + strings.Join(r.Why, "; ") + ". Use more --time or a higher --rate"
	}
	return "clean"
}
