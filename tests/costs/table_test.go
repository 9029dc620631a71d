package costs_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what was measured into docs/costs.md")

const page = "../../docs/costs.md"

// A table is a part of the page that is measured.
type table struct {
	mark    string // its name on the page
	columns []string
	row     func(b bill) []float64
	slack   float64 // by what part of itself a number may be off, on another machine
}

var tables = []table{
	{"hold", []string{"round trips", "commands", "commands run in the server", "bytes sent", "bytes received", "bytes written to disk"}, func(b bill) []float64 {
		return []float64{b.hold.trips, b.hold.commands, b.inner, b.hold.sent, b.hold.received, b.disk}
	}, 0.15},
	{"renewal", []string{"round trips for 100 leases", "bytes sent for one", "bytes received for one"}, func(b bill) []float64 {
		return []float64{b.renewal.trips * leases, b.renewal.sent, b.renewal.received}
	}, 0.5},
	{"wait", []string{"commands in a second", "bytes in a second", "commands of a hand-over", "bytes of a hand-over"}, func(b bill) []float64 {
		return []float64{b.wait.commands, b.wait.sent + b.wait.received, b.handOver.commands, b.handOver.sent + b.handOver.received}
	}, 0.6},
	{"rest", []string{"held: bytes", "held: keys or rows", "after that: bytes", "after that: keys or rows"}, func(b bill) []float64 {
		return []float64{b.heldBytes, b.heldRows, b.restBytes, b.restRows}
	}, 0.35},
	{"conns", []string{"a process that locks", "while it holds 1,000 names", "one more process that waits", "commands in a second of an idle process"}, func(b bill) []float64 {
		return []float64{b.connsOpen, b.connsHold, b.connsWait, b.idle.commands}
	}, 0.85}, // a pool opens more when the machine is slow; a connection for each name would be seen
}

// wire are columns that mean nothing where nothing goes over a wire.
func (b bill) wired() bool { return b.hold.commands > 0 }

// text is a table as the page has it.
func (t table) text(bills []bill) string {
	var s strings.Builder
	fmt.Fprintf(&s, "| | %s |\n|---|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, b := range bills {
		s.WriteString("| " + b.store)
		for i, v := range t.row(b) {
			if !b.wired() && t.mark != "rest" && !strings.Contains(t.columns[i], "disk") {
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

// hold compares what was measured with the page, or writes it there.
func hold(t *testing.T, bills []bill) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	for _, table := range tables {
		part := regexp.MustCompile("(?s)<!-- measured: " + table.mark + " -->\n(.*?)<!-- end -->\n")
		found := part.FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("%s has no part %q", page, table.mark)
		}
		now := table.text(bills)
		t.Logf("%s\n%s", table.mark, now)
		if *update {
			out = strings.Replace(out, found[0], "<!-- measured: "+table.mark+" -->\n"+now+"<!-- end -->\n", 1)
			continue
		}
		for _, d := range differences(found[1], now, table.slack) {
			t.Errorf("%s: %s: %s. If that is meant: go test ./tests/costs -args -update", page, table.mark, d)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// differences tells in which cells two tables differ: by more than a part of the larger number, and more than 2.
func differences(was, now string, slack float64) (out []string) {
	a, b := strings.Split(strings.TrimSpace(was), "\n"), strings.Split(strings.TrimSpace(now), "\n")
	if len(a) != len(b) {
		return []string{fmt.Sprintf("%d lines, and %d were measured", len(a), len(b))}
	}
	for i := range a {
		x, y := strings.Split(a[i], "|"), strings.Split(b[i], "|")
		if len(x) != len(y) {
			out = append(out, fmt.Sprintf("line %d has other columns", i+1))
			continue
		}
		for j := range x {
			x, y := strings.TrimSpace(x[j]), strings.TrimSpace(y[j])
			f, err := strconv.ParseFloat(x, 64)
			g, err2 := strconv.ParseFloat(y, 64)
			close := err == nil && err2 == nil && math.Abs(f-g) <= max(2, slack*max(f, g))
			if x != y && !close {
				out = append(out, fmt.Sprintf("line %d says %q, and %q was measured", i+1, x, y))
			}
		}
	}
	return out
}

func TestDifferences(t *testing.T) {
	const was = "| | a | b |\n|---|---|---|\n| x | 100 | - |\n"
	for now, want := range map[string]int{
		was: 0,
		"| | a | b |\n|---|---|---|\n| x | 110 | - |\n": 0,
		"| | a | b |\n|---|---|---|\n| x | 113 | - |\n": 1,
		"| | a | b |\n|---|---|---|\n| x | 100 | 1 |\n": 1,
		"| | a | c |\n|---|---|---|\n| y | 100 | - |\n": 2,
		"| | a | b |\n": 1,
	} {
		if got := differences(was, now, 0.1); len(got) != want {
			t.Errorf("%q: %q, want %d differences", now, got, want)
		}
	}
}
