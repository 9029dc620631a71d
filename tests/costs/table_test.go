package costs_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the measurements to docs/costs.md")

const page = "../../docs/costs.md"

// A table is a table of measurements on the page.
type table struct {
	mark    string // its name on the page
	columns []string
	row     func(b bill) []float64
	// slack is, for each column, the relative difference that is allowed on another machine, or
	// loads. If slack is nil, it is loads for all columns.
	slack []float64
}

// loads is the slack of a column that depends on time or load. Such a column is written, but never
// compared.
const loads = -1

var tables = []table{
	{"hold", []string{"round trips", "commands", "commands run in the server", "bytes sent", "bytes received", "bytes written to disk"}, func(b bill) []float64 {
		return []float64{b.hold.trips, b.hold.commands, b.inner, b.hold.sent, b.hold.received, b.disk}
	}, []float64{0, 0, 0, 0.15, 0.15, loads}},
	{"renewal", []string{"round trips for 100 leases", "bytes sent for one", "bytes received for one"}, func(b bill) []float64 {
		return []float64{b.renewal.trips * leases, b.renewal.sent, b.renewal.received}
	}, nil},
	{"wait", []string{"commands in a second", "bytes in a second", "commands of a hand-off", "bytes of a hand-off"}, func(b bill) []float64 {
		return []float64{b.wait.commands, b.wait.sent + b.wait.received, b.handOff.commands,
			b.handOff.sent + b.handOff.received}
	}, nil},
	{"rest", []string{"held: bytes", "held: keys or rows", "after that: bytes", "after that: keys or rows"}, func(b bill) []float64 {
		return []float64{b.heldBytes, b.heldRows, b.freeBytes, b.freeRows}
	}, []float64{loads, 0, loads, 0}},
	{"conns", []string{"a process that locks", "while it holds 1,000 names", "one more process that waits", "commands in a second of an idle process"}, func(b bill) []float64 {
		return []float64{b.connsOpen, b.connsHold, b.connsWait, b.idle.commands}
	}, nil}, // a pool opens more connections on a slow machine
}

// remote reports whether the store has a network. Most columns have no meaning for other stores.
func (b bill) remote() bool { return b.hold.commands > 0 }

// text returns the table in the format of the page.
func (t table) text(bills []bill) string {
	var s strings.Builder
	fmt.Fprintf(&s, "| | %s |\n|---|%s\n", strings.Join(t.columns, " | "),
		strings.Repeat("---|", len(t.columns)))
	for _, b := range bills {
		s.WriteString("| " + b.store)
		for i, v := range t.row(b) {
			if !b.remote() && t.mark != "rest" && !strings.Contains(t.columns[i], "disk") {
				v = math.NaN()
			}
			s.WriteString(" | " + show(v))
		}
		s.WriteString(" |\n")
	}
	return s.String()
}

func show(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) < 10:
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
}

// find returns the table on the page: with its marks, and without them.
func (t table) find(page string) (whole, inner string, ok bool) {
	found := regexp.MustCompile("(?s)<!-- measured: " + t.mark +
		" -->\n(.*?)<!-- end -->\n").FindStringSubmatch(page)
	if found == nil {
		return "", "", false
	}
	return found[0], found[1], true
}

// write writes the measurements to the page. It skips the test if a store is missing.
func write(t *testing.T, bills []bill) {
	if slices.ContainsFunc(bills, func(b bill) bool { return b.store == "" }) {
		t.Skip("a server is missing")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	for _, table := range tables {
		whole, _, ok := table.find(out)
		if !ok {
			t.Fatalf("%s has no table %q", page, table.mark)
		}
		out = strings.Replace(out, whole,
			"<!-- measured: "+table.mark+" -->\n"+table.text(bills)+"<!-- end -->\n", 1)
	}
	if err := os.WriteFile(page, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compare compares the measured stores with the page.
func compare(t *testing.T, bills []bill) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		_, was, ok := table.find(string(text))
		if !ok {
			t.Errorf("%s has no table %q", page, table.mark)
			continue
		}
		if table.slack == nil {
			continue
		}
		now := table.text(bills)
		t.Logf("%s\n%s", table.mark, now)
		for _, d := range differences(was, now, table.slack) {
			t.Errorf("%s: %s: %s. If this is intended: go test -count=1 -run '^TestCosts$' ./tests/costs -args -update", page, table.mark, d)
		}
	}
}

// differences returns the cells of the measured rows in which two tables differ by more than the
// slack of the column and more than 0.5.
func differences(was, now string, slack []float64) (out []string) {
	rows := func(text string) map[string][]string {
		all := map[string][]string{}
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if cells[0] != "---" {
				all[cells[0]] = cells[1:]
			}
		}
		return all
	}
	written := rows(was)
	measured := rows(now)
	if !slices.Equal(written[""], measured[""]) {
		return []string{fmt.Sprintf("the columns are %q, but %q were measured", written[""],
			measured[""])}
	}
	delete(measured, "")
	for _, store := range slices.Sorted(maps.Keys(measured)) {
		row := written[store]
		if len(row) != len(measured[store]) {
			out = append(out, fmt.Sprintf("%s has no row", store))
			continue
		}
		for i, y := range measured[store] {
			f, err := strconv.ParseFloat(row[i], 64)
			g, err2 := strconv.ParseFloat(y, 64)
			close := err == nil && err2 == nil && math.Abs(f-g) <= max(0.5, slack[i]*max(f, g))
			if row[i] != y && !close && slack[i] != loads {
				out = append(out, fmt.Sprintf("%s: the page has %q, but %q was measured", store, row[i], y))
			}
		}
	}
	return out
}

func TestDifferences(t *testing.T) {
	const was = "| | a | b | c |\n|---|---|---|---|\n| x | 100 | 2 | 5 |\n| z | 1 | 1 | 1 |\n"
	for now, want := range map[string]int{
		was: 0,
		"| | a | b | c |\n|---|---|---|---|\n| x | 110 | 2 | 9 |\n": 0,
		"| | a | b | c |\n|---|---|---|---|\n| x | 113 | 2 | 5 |\n": 1,
		"| | a | b | c |\n|---|---|---|---|\n| x | 113 | 3 | 9 |\n": 2,
		"| | a | b | c |\n|---|---|---|---|\n| x | 100 | - | 5 |\n": 1,
		"| | a | b | c |\n|---|---|---|---|\n| y | 100 | 2 | 5 |\n": 1,
		"| | a | c | b |\n|---|---|---|---|\n| x | 100 | 2 | 5 |\n": 1,
	} {
		if got := differences(was, now, []float64{0.1, 0, loads}); len(got) != want {
			t.Errorf("%q: %q, want %d differences", now, got, want)
		}
	}
}
