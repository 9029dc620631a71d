package promise

import (
	_ "embed" // the figures of the last long run
	"encoding/json"
	"fmt"
)

//go:embed nightly.json
var figures []byte

// A Figure is what a long run measured.
type Figure struct {
	Store   string `json:"store"`
	Figure  string `json:"figure"`
	Value   string `json:"value"`
	Seed    uint64 `json:"seed"`
	Command string `json:"command"`
	Date    string `json:"date"`
}

// Figures returns what nightly.json says. The long runs write that file.
func Figures() ([]Figure, error) {
	var all []Figure
	if err := json.Unmarshal(figures, &all); err != nil {
		return nil, fmt.Errorf("nightly.json: %w", err)
	}
	return all, nil
}

func nightly(all []Figure) string {
	if len(all) == 0 {
		return "No long run has been written down yet.\n"
	}
	var rows [][]string
	for _, f := range all {
		rows = append(rows, []string{f.Store, f.Figure, f.Value, fmt.Sprint(f.Seed), "`" + f.Command + "`", f.Date})
	}
	return table([]string{"store", "figure", "value", "seed", "command", "date"}, rows)
}
