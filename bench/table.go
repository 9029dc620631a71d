package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A table is the result of one comparison.
type table struct {
	Title   string   `json:"title"`
	Columns []column `json:"columns"`
	Rows    []row    `json:"rows"`
	Goals   []goal   `json:"goals,omitempty"`

	Growth *growth `json:"growth,omitempty"` // for a table whose columns are sizes
}

// A column has a name and a unit for its numbers.
type column struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"` // "s" for seconds, "%", "x" for a ratio
}

// A row has a number for each column. NaN means that there is none, and +Inf that the measurement
// was not done in its time.
type row struct {
	Name   string
	Values []float64
}

// A rowJSON is a row in JSON: null for NaN, and a text for +Inf.
type rowJSON struct {
	Name   string `json:"name"`
	Values []any  `json:"values"`
}

const notDone = "not done"

// MarshalJSON writes the row as a rowJSON, with five digits: the rest is noise.
func (r row) MarshalJSON() ([]byte, error) {
	out := rowJSON{r.Name, make([]any, len(r.Values))}
	for i, v := range r.Values {
		switch {
		case math.IsInf(v, 0):
			out.Values[i] = notDone
		case !math.IsNaN(v):
			out.Values[i] = json.Number(strconv.FormatFloat(v, 'g', 5, 64))
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads a rowJSON.
func (r *row) UnmarshalJSON(text []byte) error {
	var in rowJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*r = row{in.Name, make([]float64, len(in.Values))}
	for i, v := range in.Values {
		switch v := v.(type) {
		case float64:
			r.Values[i] = v
		case string:
			r.Values[i] = math.Inf(1)
		default:
			r.Values[i] = math.NaN()
		}
	}
	return nil
}

// A goal is the limit for a number, and its measured value.
type goal struct {
	Want    string `json:"want"`
	Got     string `json:"got"`
	Reached bool   `json:"reached"`
}

// atMost and atLeast make goals for a number.
func atMost(what string, got, limit float64) goal {
	return goal{fmt.Sprintf("%s: at most %v", what, limit), number(got), got <= limit}
}

func atLeast(what string, got, limit float64) goal {
	return goal{fmt.Sprintf("%s: at least %v", what, limit), number(got), got >= limit}
}

// number returns a number with three digits, or all digits of a large one.
func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func below(what string, got, limit time.Duration) goal {
	return goal{fmt.Sprintf("%s: under %v", what, limit), got.Round(100 * time.Microsecond).String(), got < limit}
}

func (c column) show(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.IsInf(v, 0):
		return notDone
	case c.Unit == "s":
		d := time.Duration(v * float64(time.Second))
		switch {
		case d.Abs() < 100*time.Microsecond:
			return d.Round(10 * time.Nanosecond).String()
		case d.Abs() < 10*time.Millisecond:
			return d.Round(time.Microsecond).String()
		default:
			return d.Round(100 * time.Microsecond).String()
		}
	case c.Unit == "x":
		if v >= 100 {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.2f", v)
	case c.Unit == "j":
		return fmt.Sprintf("%.3f", v)
	case c.Unit == "%":
		return fmt.Sprintf("%.1f%%", v)
	case v == math.Trunc(v) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.1f", v)
	}
}

// report prints a table and keeps it.
func (b *bench) report(t table) {
	b.tables = append(b.tables, t)
	b.progress.clear()
	fmt.Fprintln(b.out, t.Title)
	fmt.Fprintf(b.out, "  %-44s", "")
	for _, c := range t.Columns {
		fmt.Fprintf(b.out, " %12s", c.Name)
	}
	fmt.Fprintln(b.out)
	for _, r := range t.Rows {
		fmt.Fprintf(b.out, "  %-44s", r.Name)
		for i, v := range r.Values {
			fmt.Fprintf(b.out, " %12s", t.Columns[i].show(v))
		}
		fmt.Fprintln(b.out)
	}
	if t.Growth != nil && slices.ContainsFunc(t.Rows, func(r row) bool { return slices.Contains(r.Values, math.Inf(1)) }) {
		fmt.Fprintf(b.out, "  not done: in %v, preparation included; larger sizes are not tried\n", t.Growth.Limit)
	}
	for _, g := range t.Goals {
		if b.quick {
			break // its figures mean nothing
		}
		word := "reached"
		if !g.Reached {
			word = "NOT REACHED"
		}
		fmt.Fprintf(b.out, "  goal: %s; %s, %s\n", g.Want, g.Got, word)
	}
	fmt.Fprintln(b.out)
}

// summary prints how many goals were reached, and which were not.
func (b *bench) summary() {
	reached, all := 0, 0
	var missed []string
	for _, t := range b.tables {
		for _, g := range t.Goals {
			all++
			if g.Reached {
				reached++
			} else {
				missed = append(missed, fmt.Sprintf("  %s: %s; %s", t.Title, g.Want, g.Got))
			}
		}
	}
	if all == 0 {
		return
	}
	fmt.Fprintf(b.out, "%d of %d goals reached\n", reached, all)
	if len(missed) > 0 {
		fmt.Fprintln(b.out, "not reached:\n"+strings.Join(missed, "\n"))
	}
}

// The columns that comparisons have.
var (
	perSecond = column{"per second", ""}
	ratio     = column{"ratio", "x"}
	p50       = column{"p50", "s"}
	worst     = column{"worst", "s"}
	jain      = column{"Jain", "j"}
)
