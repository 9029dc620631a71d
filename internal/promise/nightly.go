package promise

import (
	"cmp"
	_ "embed" // the figures of the last long run
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed nightly.json
var figures []byte

// A Figure is one measurement of a long run.
type Figure struct {
	Store   string `json:"store"`
	Figure  string `json:"figure"`
	Value   string `json:"value"`
	Seed    uint64 `json:"seed"`
	Command string `json:"command"`
	Date    string `json:"date"`
}

// Figures returns the contents of nightly.json. The long runs write that file.
func Figures() ([]Figure, error) {
	var all []Figure
	if err := json.Unmarshal(figures, &all); err != nil {
		return nil, fmt.Errorf("nightly.json: %w", err)
	}
	return all, nil
}

// nightly renders the figures as tables, one table for each run.
func nightly(all []Figure) string {
	if len(all) == 0 {
		return "No long run has been recorded yet.\n"
	}
	type run struct {
		command, date string
		seed          uint64
	}
	var runs []run
	rows := map[run][][]string{}
	for _, f := range all {
		r := run{f.Command, f.Date, f.Seed}
		if rows[r] == nil {
			runs = append(runs, r)
		}
		rows[r] = append(rows[r], []string{f.Figure, f.Store, f.Value})
	}
	var b strings.Builder
	for _, r := range runs {
		slices.SortStableFunc(rows[r], func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
		fmt.Fprintf(&b, "`%s`, seed %d, %s:\n\n%s\n", r.command, r.seed, r.date,
			table([]string{"figure", "store", "value"}, rows[r]))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
