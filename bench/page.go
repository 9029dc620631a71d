package main

import (
	_ "embed" // for the text of the page
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed page.tmpl
var pageText string

// A page has what the text of the page shows.
type page struct {
	Runs    []measured        // how the suites were measured
	Machine []string          // the machines
	Using   map[string]string // the versions
	Busy    string            // the load, if the machine was busy
	Peers   []string          // the libraries, as headers of Speeds and Others
	Speeds  []speeds
	Others  []speeds
	Goals   []goalRow
	Stores  []string // as headers of Growth
	Growth  []growthLine
	Behind  []string // where distlock is behind a library or a goal
	Grown   []string // costs that grow
	Missing []string // suites without results
}

// A measured says how a suite was measured.
type measured struct {
	Suite string
	record
}

// A speeds is a row of the table of speeds: distlock is 1. In the table of other costs it has
// numbers.
type speeds struct {
	Title, Ours, Bare string
	Peers             []string
	dots              []float64 // of the libraries and of bare, for the plot; NaN: none
}

// A goalRow is a row of the table of goals, with the goals of one table.
type goalRow struct {
	Title              string
	Want, Got, Reached []string
}

// A growthLine is a row of the table of growth, with a plot.
type growthLine struct {
	Title, File string
	Cells       []string
}

// libraries are the columns of the table of speeds: the header, and how the row of a table begins.
var libraries = [][2]string{
	{"redislock", "redislock, "}, {"redislock, AutoPipeline", "redislock on AutoPipeline"}, {"redsync", "redsync"},
	{"redsync, fail-fast", "redsync with fail-fast"},
	{"rueidislock, 1 key", "rueidislock, 1 key"}, {"rueidislock", "rueidislock by default"}, {"pglock", "pglock"},
	{"concurrency.Mutex", "concurrency.Mutex"}, {"lock service of etcd", "the lock service of etcd"},
}

// others are the rows of the table of other costs: a part of the title, the column, and the text.
var others = [][3]string{
	{"allocations for a pair", "allocations", "allocations of Lock and Unlock"},
	{"leases held with", "goroutines", "goroutines for 10,000 leases"},
	{"leases held with", "bytes each", "bytes for each of them"},
	{"link is cut", "worst", "two holders after a cut link, at worst; below zero: never"},
}

// alternate is the reason of pairs through a lock server.
const alternate = "Bare calls and the store are each measured in a loop of their own. One after the other, in one process and without a lock server, they take longer too: see the row \"in turn\" of this table in `bench/results.json`."

// reasons say why distlock is behind, by a part of the title of a table.
var reasons = [][2]string{
	{"goroutine: the pair through Locks", alternate},
	{"Lock server on SQLite, free key, 1 goroutine: the pair", alternate},
	{"Lock server on Redis, free key, 1 goroutine: the pair", alternate},
	{"Redis, free key", "The others have no fencing token. distlock stores a fence, the holder and the note of the caller with each claim."},
	{"Redis, one key, 4", "Without local hand-offs each grant goes through the server, with fences, queue entries that expire, and the exclusion of older clients: [ADR 0018](adr/0018-pushed-grants.md)."},
	{"etcd, free key", "distlock stores the holder and the note of the caller with each claim, and checks that its lease lives for the whole TTL: [ADR 0034](adr/0034-etcd.md)."},
	{"the lock service of etcd", "etcd writes the changes of many callers to its disk together, and SQLite each of them alone. A call of the lock service has no TTL, and its lock no holder."},
	{"Redlock", "Each node stores a fence and the data of the claim: [ADR 0009](adr/0009-redlock-with-fences.md)."},
}

// writePage writes the page and its plots from the file of results.
func (c config) writePage() error {
	all, err := readResults(c.results)
	if err != nil {
		return err
	}
	text, err := render(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.images, 0o755); err != nil {
		return err
	}
	for file, svg := range plots(all) {
		if err := os.WriteFile(filepath.Join(c.images, file), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(c.document, []byte(text), 0o644)
}

// render returns the text of the page.
func render(all map[string]record) (string, error) {
	t, err := template.New("page").Funcs(template.FuncMap{"join": strings.Join}).Parse(pageText)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&out, newPage(all)); err != nil {
		return "", err
	}
	return out.String(), nil
}

func newPage(all map[string]record) page {
	p := page{Using: map[string]string{}}
	for _, l := range libraries {
		p.Peers = append(p.Peers, l[0])
	}
	for _, s := range suites() {
		r, ok := all[s.name]
		if !ok {
			p.Missing = append(p.Missing, s.name)
			continue
		}
		p.addRun(measured{s.name, r})
		for _, t := range r.Tables {
			p.add(t)
		}
	}
	return p
}

// busy is the load of each core above which figures are rough.
const busy = 0.5

// addRun adds how a suite was measured.
func (p *page) addRun(m measured) {
	p.Runs = append(p.Runs, m)
	if !slices.Contains(p.Machine, m.Machine) {
		p.Machine = append(p.Machine, m.Machine)
	}
	maps.Copy(p.Using, m.Versions)
	var cores, load float64
	if _, err := fmt.Sscan(m.Load, &load); err != nil {
		return
	}
	if _, err := fmt.Sscan(m.Machine, &cores); err == nil && load > busy*cores && p.Busy == "" {
		p.Busy = fmt.Sprintf("%.1f on %s", load, strings.Split(m.Machine, ",")[0])
	}
}

// add adds a table of results.
func (p *page) add(t table) {
	var behind []string
	goals := goalRow{Title: t.Title}
	for _, g := range t.Goals {
		reached := "yes"
		if !g.Reached {
			reached = "**no**"
			at := strings.LastIndex(g.Want, ": ")
			behind = append(behind, fmt.Sprintf("%s: %s (goal%s)", g.Want[:at], g.Got, g.Want[at:]))
		}
		goals.Want, goals.Got, goals.Reached = append(goals.Want, g.Want), append(goals.Got, g.Got), append(goals.Reached, reached)
	}
	if len(t.Goals) > 0 {
		p.Goals = append(p.Goals, goals)
	}
	if t.Growth != nil {
		p.addGrowth(t)
	} else {
		p.addOthers(t)
		behind = append(behind, p.addSpeeds(t)...)
	}
	if len(behind) == 0 {
		return
	}
	line := t.Title + ": " + strings.Join(behind, "; ") + "."
	for _, r := range reasons {
		if strings.Contains(t.Title, r[0]) {
			line += " " + r[1]
			break
		}
	}
	p.Behind = append(p.Behind, line)
}

// addSpeeds adds a comparison, and returns which libraries are faster than distlock.
func (p *page) addSpeeds(t table) (faster []string) {
	ours := slices.IndexFunc(t.Rows, func(r row) bool {
		return r.Name == "distlock" || strings.HasPrefix(r.Name, "distlock on ") || strings.HasPrefix(r.Name, "distlock: ")
	})
	lead := t.Columns[0]
	if ours < 0 || len(t.Rows) < 2 || lead != perSecond && lead != p50 {
		return nil
	}
	base := t.Rows[ours].Values[0]
	speed := func(r row) float64 {
		if lead == p50 {
			return base / r.Values[0]
		}
		return r.Values[0] / base
	}
	s := speeds{Title: t.Title, Ours: duration(base)}
	if lead == perSecond {
		s.Ours = thousands(base) + "/s"
	}
	bare := math.NaN()
	if !strings.HasPrefix(t.Rows[0].Name, "distlock") {
		bare = speed(t.Rows[0])
		s.Bare = digits(bare)
	}
	for _, l := range libraries {
		cell, dot := "", math.NaN()
		if r, ok := rowOf(t, l[1]); ok {
			dot = speed(r)
			if cell = digits(dot); dot > 1.05 {
				faster = append(faster, fmt.Sprintf("%s is %s times as fast", l[0], cell))
				cell = "**" + cell + "**"
			}
		}
		s.Peers, s.dots = append(s.Peers, cell), append(s.dots, dot)
	}
	s.dots = append(s.dots, bare)
	if s.Bare != "" || strings.Join(s.Peers, "") != "" {
		p.Speeds = append(p.Speeds, s)
	}
	return faster
}

// addOthers adds the rows of a table that belong to the table of other costs.
func (p *page) addOthers(t table) {
	for _, o := range others {
		at := slices.IndexFunc(t.Columns, func(c column) bool { return c.Name == o[1] })
		ours, ok := rowOf(t, "distlock")
		if !strings.Contains(t.Title, o[0]) || at < 0 || !ok {
			continue
		}
		show := func(r row) string {
			if t.Columns[at].Unit == "s" {
				return duration(r.Values[at])
			}
			return thousands(r.Values[at])
		}
		s := speeds{Title: o[2], Ours: show(ours)}
		for _, l := range libraries {
			cell := ""
			if r, ok := rowOf(t, l[1]); ok {
				cell = show(r)
			}
			s.Peers = append(s.Peers, cell)
		}
		p.Others = append(p.Others, s)
	}
}

// rowOf returns the first row whose name begins with a text.
func rowOf(t table, begin string) (row, bool) {
	for _, r := range t.Rows {
		if strings.HasPrefix(r.Name, begin) {
			return r, true
		}
	}
	return row{}, false
}

// digits returns a ratio.
func digits(v float64) string {
	switch {
	case v >= 10:
		return thousands(v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1g", v)
}

// duration returns a time in seconds with three digits and its unit: 64.5 µs.
func duration(v float64) string {
	for _, u := range []struct {
		size float64
		unit string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "\u00b5s"}, {1e-9, "ns"}} {
		if n := v / u.size; math.Abs(n) >= 0.9995 || u.unit == "ns" {
			return strconv.FormatFloat(n, 'f', max(0, 2-int(math.Floor(math.Log10(max(1, math.Abs(n)))))), 64) + " " + u.unit
		}
	}
	return ""
}

// steep is the growth from which a cost is listed as one that grows.
const steep = 3

// addGrowth adds a table of growth.
func (p *page) addGrowth(t table) {
	g := growthLine{Title: strings.TrimPrefix(t.Title, "growth: "), File: t.Growth.File + ".svg"}
	p.Stores = nil
	var grown []string
	sizes := t.Growth.Sizes
	for _, r := range t.Rows {
		p.Stores = append(p.Stores, r.Name)
		done := slices.IndexFunc(r.Values, func(v float64) bool { return math.IsInf(v, 1) })
		if done < 0 {
			done = len(sizes)
		}
		var cell, bad []string
		if done > 0 {
			cell = append(cell, duration(r.Values[0]))
		}
		if ratio := r.Values[len(sizes)]; done > 1 {
			factor := digits(ratio)
			if done < len(sizes) {
				factor += " at " + thousands(sizes[done-1])
			}
			if cell = append(cell, factor); ratio >= steep {
				bad = append(bad, fmt.Sprintf("%s times as long at %s as at %s", digits(ratio), thousands(sizes[done-1]), thousands(sizes[0])))
			}
		}
		if done < len(sizes) {
			not := fmt.Sprintf("%s not done in %s", thousands(sizes[done]), inSeconds(t.Growth.Limit))
			cell, bad = append(cell, not), append(bad, not)
		}
		if g.Cells = append(g.Cells, strings.Join(cell, "; ")); len(bad) > 0 {
			grown = append(grown, r.Name+" "+strings.Join(bad, ", "))
		}
	}
	p.Growth = append(p.Growth, g)
	if len(grown) > 0 {
		p.Grown = append(p.Grown, g.Title+": "+strings.Join(grown, "; ")+".")
	}
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%v s", d.Seconds()) }

// speedPlot returns the plot of the comparisons with other libraries.
func speedPlot(all []speeds) string {
	d := dots{title: "Speed next to distlock", x: "times as fast as distlock, in one run (log scale); right of 1 is faster"}
	for _, l := range libraries {
		d.names = append(d.names, l[0])
	}
	d.names = append(d.names, "bare commands")
	for _, s := range all {
		if strings.Join(s.Peers, "") != "" {
			label, _, _ := strings.Cut(s.Title, ": ")
			d.rows = append(d.rows, dotRow{label, s.dots})
		}
	}
	return d.svg()
}

// plots returns the plots of the page, by their file names.
func plots(all map[string]record) map[string]string {
	out := map[string]string{"speed.svg": speedPlot(newPage(all).Speeds)}
	for _, r := range all {
		for _, t := range r.Tables {
			if t.Growth == nil {
				continue
			}
			title := strings.TrimPrefix(t.Title, "growth: ")
			c := chart{strings.ToUpper(title[:1]) + title[1:], t.Growth.X, t.Growth.Y, t.Growth.Sizes, nil, inSeconds(t.Growth.Limit)}
			for _, r := range t.Rows {
				c.lines = append(c.lines, line{r.Name, r.Values[:len(t.Growth.Sizes)]})
			}
			out[t.Growth.File+".svg"] = c.svg()
		}
	}
	return out
}
