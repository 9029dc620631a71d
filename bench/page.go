package main

import (
	_ "embed" // for the text of the page
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed page.md
var pageText string

// A page has what the text of the page shows.
type page struct {
	Runs    []measured        // how the suites were measured
	Machine []string          // the machines
	Using   map[string]string // the versions
	Peers   []string          // the libraries, as headers of Speeds
	Speeds  []speeds
	Goals   []goalRow
	Stores  []string // as headers of Growth
	Growth  []growthLine
	Behind  []string // where distlock is behind a peer or a goal
	Grown   []string // costs that grow
	Missing []string // suites without results
}

// A measured says how a suite was measured.
type measured struct {
	Suite string
	record
}

// A speeds is a row of the table of speeds: distlock is 1.
type speeds struct {
	Title, Ours, Bare string
	Peers             []string
}

// A goalRow is a row of the table of goals.
type goalRow struct {
	Title string
	goal
}

// A growthLine is a row of the table of growth, with a plot.
type growthLine struct {
	Title, File string
	Cells       []string
}

// libraries are the columns of the table of speeds: the header, and how the row of a table begins.
var libraries = [][2]string{
	{"redislock", "redislock, "}, {"redislock, AutoPipeline", "redislock on AutoPipeline"}, {"redsync", "redsync"},
	{"rueidislock, 1 key", "rueidislock, 1 key"}, {"rueidislock", "rueidislock by default"}, {"pglock", "pglock"},
}

// reasons say why distlock is behind, by a part of the title of a table.
var reasons = [][2]string{
	{"Redis, free key", "The others have no fencing token. distlock stores a fence, the holder and the note of the caller with each claim."},
	{"Redis, one key, 4", "Without local hand-offs each grant goes through the server, with fences, queue entries that expire, and the exclusion of older clients: [ADR 0018](adr/0018-pushed-grants.md)."},
	{"Redlock", "Each node stores a fence and the data of the claim: [ADR 0009](adr/0009-redlock-with-fences.md)."},
	{"PostgreSQL lease, one waiter", "The release commits, the server notifies, and the waiter of another process accepts the grant: that is more than two statements."},
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
	t, err := template.New("page.md").Funcs(template.FuncMap{"join": strings.Join}).Parse(pageText)
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
		p.Runs = append(p.Runs, measured{s.name, r})
		if !slices.Contains(p.Machine, r.Machine) {
			p.Machine = append(p.Machine, r.Machine)
		}
		maps.Copy(p.Using, r.Versions)
		for _, t := range r.Tables {
			p.add(t)
		}
	}
	return p
}

// add adds a table of results.
func (p *page) add(t table) {
	for _, g := range t.Goals {
		p.Goals = append(p.Goals, goalRow{t.Title, g})
		if !g.Reached {
			p.behind(t.Title, fmt.Sprintf("the goal is %s, and the result is %s.", g.Want, g.Got))
		}
	}
	if t.Growth != nil {
		p.addGrowth(t)
		return
	}
	ours := slices.IndexFunc(t.Rows, func(r row) bool {
		return r.Name == "distlock" || strings.HasPrefix(r.Name, "distlock on ") || strings.HasPrefix(r.Name, "distlock: ")
	})
	lead := t.Columns[0]
	if ours < 0 || len(t.Rows) < 2 || lead != perSecond && lead != p50 {
		return
	}
	s := speeds{Title: t.Title, Ours: lead.show(t.Rows[ours].Values[0]), Bare: "-"}
	if lead == perSecond {
		s.Ours = thousands(t.Rows[ours].Values[0]) + "/s"
	}
	speed := func(r row) float64 {
		v := r.Values[0] / t.Rows[ours].Values[0]
		if lead == p50 {
			v = 1 / v
		}
		return v
	}
	if !strings.HasPrefix(t.Rows[0].Name, "distlock") {
		s.Bare = digits(speed(t.Rows[0]))
	}
	for _, l := range libraries {
		s.Peers = append(s.Peers, "")
		for _, r := range t.Rows {
			if strings.HasPrefix(r.Name, l[1]) && s.Peers[len(s.Peers)-1] == "" {
				s.Peers[len(s.Peers)-1] = digits(speed(r))
				if speed(r) > 1.05 {
					s.Peers[len(s.Peers)-1] = "**" + digits(speed(r)) + "**"
					p.behind(t.Title, fmt.Sprintf("%s is %s times as fast.", l[0], digits(speed(r))))
				}
			}
		}
	}
	p.Speeds = append(p.Speeds, s)
}

// behind adds a line about a table, with the reason if there is one.
func (p *page) behind(title, what string) {
	line := title + ": " + what
	for _, r := range reasons {
		if strings.Contains(title, r[0]) {
			line += " " + r[1]
			break
		}
	}
	p.Behind = append(p.Behind, line)
}

// digits returns a ratio with two digits.
func digits(v float64) string {
	if v >= 10 {
		return thousands(v)
	}
	return fmt.Sprintf("%.2g", v)
}

// steep is the growth from which a cost is listed as one that grows.
const steep = 3

// addGrowth adds a table of growth.
func (p *page) addGrowth(t table) {
	g := growthLine{Title: strings.TrimPrefix(t.Title, "growth: "), File: t.Growth.File + ".svg"}
	p.Stores = nil
	for _, r := range t.Rows {
		p.Stores = append(p.Stores, r.Name)
		done := slices.IndexFunc(r.Values, func(v float64) bool { return math.IsInf(v, 1) })
		if done < 0 {
			done = len(t.Growth.Sizes)
		}
		cell := ""
		if done > 0 {
			cell = t.Columns[0].show(r.Values[0])
		}
		if done > 1 {
			cell += "; " + digits(r.Values[len(r.Values)-1])
		}
		if done < len(t.Growth.Sizes) {
			not := fmt.Sprintf("%s not done in %s", thousands(t.Growth.Sizes[done]), inSeconds(t.Growth.Limit))
			if done > 1 {
				cell += " at " + thousands(t.Growth.Sizes[done-1])
			}
			cell = strings.TrimPrefix(cell+"; "+not, "; ")
			p.Grown = append(p.Grown, fmt.Sprintf("%s, %s: %s.", g.Title, r.Name, not))
		} else if v := r.Values[len(r.Values)-1]; v >= steep {
			p.Grown = append(p.Grown, fmt.Sprintf("%s, %s: %s times as long at %s as at %s.", g.Title, r.Name, digits(v),
				thousands(t.Growth.Sizes[done-1]), thousands(t.Growth.Sizes[0])))
		}
		g.Cells = append(g.Cells, cell)
	}
	p.Growth = append(p.Growth, g)
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%v s", d.Seconds()) }

// plots returns the plots of all tables that have one, by their file names.
func plots(all map[string]record) map[string]string {
	out := map[string]string{}
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
