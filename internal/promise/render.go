package promise

import (
	_ "embed" // the text around the tables
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed guarantees.tmpl
var page string

// Guarantees renders docs/guarantees.md.
func Guarantees() (string, error) {
	figures, err := Figures()
	if err != nil {
		return "", err
	}
	t, err := template.New("guarantees").Funcs(template.FuncMap{
		"library":  library,
		"grid":     func() string { return grid(Promises, stores()) },
		"promises": promises,
		"sections": sections,
		"nightly":  func() string { return nightly(figures) },
	}).Parse(page)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, nil)
	return b.String(), err
}

// README renders the table of promises for README.md. It leaves out the memory store, because
// readers of README.md look for a store that processes can share, advisory locks and MariaDB, which
// have pages of their own, and the lock server, which has the promises of its store: a page shows
// seven columns.
func README() string {
	return grid(Promises, slices.DeleteFunc(stores(), func(s Store) bool {
		return s == Memory || s == Advisory || s == MariaDB || s == Remote
	}))
}

func stores() []Store {
	all := make([]Store, len(Names))
	for i := range all {
		all[i] = Store(i)
	}
	return all
}

// table renders a table. Each row has as many cells as the head.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	writeRow := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	writeRow(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		writeRow(r)
	}
	return b.String()
}

// links renders the tests as links from a page in docs.
func links(tests []Test) string {
	var all []string
	for _, t := range tests {
		s := fmt.Sprintf("[`%s`](%s)", t.Name(), path.Join("..", t.File()))
		if t.Note() != "" {
			s += " (" + t.Note() + ")"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func library() string {
	var rows [][]string
	for i, p := range Library {
		rows = append(rows, []string{fmt.Sprint(i + 1), p.What, links(p.Tests)})
	}
	return table([]string{"", "promise", "shown by"}, rows)
}

// grid renders the overview table: promises and stores.
func grid(all []Promise, cols []Store) string {
	head := []string{""}
	for _, s := range cols {
		head = append(head, s.String())
	}
	var rows [][]string
	for _, p := range all {
		row := []string{p.Name}
		for _, s := range cols {
			row = append(row, glance(p.Cells[s]))
		}
		rows = append(rows, row)
	}
	return table(head, rows)
}

// glance renders a cell of the overview table: the answers with their conditions.
func glance(claims []Claim) string {
	var all []string
	for _, c := range claims {
		s := c.Answer.String()
		if c.When != "" && c.Answer != NotApplicable {
			s += " " + c.When
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}

// promises renders each promise with the details and the tests of its cells.
func promises() string {
	var b strings.Builder
	for _, p := range Promises {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", p.Name, p.Text)
		var rows [][]string
		for _, s := range stores() {
			for _, c := range p.Cells[s] {
				if c.Answer == NotApplicable {
					rows = append(rows, []string{s.String(), "-", c.When, "-"})
					continue
				}
				what := c.What
				switch {
				case c.When == "":
				case what == "":
					what = c.When
				default:
					what = c.When + ": " + what
				}
				rows = append(rows, []string{s.String(), c.Answer.String(), what, links(c.Tests)})
			}
		}
		b.WriteString(table([]string{"store", "", "", "shown by"}, rows) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// sections renders the fault matrix, one section for each store.
func sections() string {
	var b strings.Builder
	for _, s := range Sections() {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", s.Title, s.Intro)
		measured := false
		for _, r := range s.Rows {
			measured = measured || r.Measured != ""
		}
		head := []string{"fault", "what holds", "shown by"}
		if measured {
			head = append(head, "measured")
		}
		var rows [][]string
		for _, r := range s.Rows {
			row := []string{r.Fault, r.Holds, links(r.Tests)}
			if measured {
				row = append(row, r.Measured)
			}
			rows = append(rows, row)
		}
		b.WriteString(table(head, rows) + "\n")
		if len(s.Absent) > 0 {
			b.WriteString("These faults do not apply here:\n\n")
			for _, a := range s.Absent {
				if names := named(a.Under); names != "" {
					fmt.Fprintf(&b, "- %s: %s\n", names, a.Why)
				}
			}
			b.WriteString("\n")
		}
		if s.Tail != "" {
			b.WriteString(s.Tail + "\n\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// named returns the names of the faults, without those that happen to no store.
func named(ids []string) string {
	happens := map[string]bool{}
	for _, s := range Sections() {
		for _, r := range s.Rows {
			for _, id := range r.Under {
				happens[id] = true
			}
		}
	}
	var all []string
	for _, f := range Faults {
		if happens[f.ID] && slices.Contains(ids, f.ID) {
			all = append(all, f.Name)
		}
	}
	return strings.Join(all, "; ")
}
