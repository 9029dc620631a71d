package promise

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/guarantees.md and the table in README.md")

// root is the root folder of the module, relative to this package.
const root = "../.."

// mostWords is the longest cell, in words. A longer text needs two rows.
const mostWords = 45

// absent returns the problems of a list of tests: no test, a test that does not exist, and a test
// that does not run on the given stores.
func absent(of string, tests []Test, declared source, on ...Store) []string {
	if len(tests) == 0 {
		return []string{of + ": no test shows it"}
	}
	var wrong []string
	for _, t := range tests {
		found, err := declared(t.File())
		name, subtest, named := strings.Cut(t.Name(), "/")
		subtests, exists := found[name]
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", of, err))
			continue
		case !exists, named && !slices.Contains(subtests, subtest):
			wrong = append(wrong, fmt.Sprintf("%s: there is no %s in %s", of, t.Name(), t.File()))
			continue
		}
		for _, s := range on {
			if why := elsewhere(t, s, subtests); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s: %s %s", of, t.Name(), why))
			}
		}
	}
	return wrong
}

// unproved returns the problems of the promises: missing cells, and answers without a test.
func unproved(all []Promise, declared source) []string {
	var wrong []string
	for _, p := range all {
		for _, s := range stores() {
			if len(p.Cells[s]) == 0 {
				wrong = append(wrong, fmt.Sprintf("%s, %s: the cell is missing", p.Name, s))
			}
			for _, c := range p.Cells[s] {
				of := fmt.Sprintf("%s, %s, %s", p.Name, s, c.When)
				switch {
				case c.Answer != NotApplicable:
					wrong = append(wrong, absent(of, c.Tests, declared, s)...)
				case c.When == "":
					wrong = append(wrong, of+"neither a promise nor a reason for its absence")
				case len(p.Cells[s]) > 1 || len(c.Tests) > 0:
					wrong = append(wrong, of+": does not apply, but has tests or more claims")
				}
			}
		}
	}
	return wrong
}

// uncovered returns the problems of the fault matrix: faults that a store does not mention, or that
// it lists both as possible and as impossible, and rows without a test.
func uncovered(all []Section, declared source) []string {
	var wrong []string
	for _, s := range all {
		happens, absence := map[string]bool{}, map[string]bool{}
		for _, r := range s.Rows {
			wrong = append(wrong,
				absent(fmt.Sprintf("%s, %s", s.Title, r.Fault), r.Tests, declared, s.Store)...)
			for _, id := range r.Under {
				happens[id] = true
			}
		}
		for _, a := range s.Absent {
			if a.Why == "" {
				wrong = append(wrong, fmt.Sprintf("%s: %v without a reason", s.Title, a.Under))
			}
			for _, id := range a.Under {
				absence[id] = true
			}
		}
		for _, f := range Faults {
			switch {
			case happens[f.ID] && absence[f.ID]:
				wrong = append(wrong,
					fmt.Sprintf("%s: %s %s is listed as possible and as impossible", s.Title, f.ID, f.Name))
			case !happens[f.ID] && !absence[f.ID]:
				wrong = append(wrong, fmt.Sprintf("%s: no row for %s, %s", s.Title, f.ID, f.Name))
			}
			delete(happens, f.ID)
			delete(absence, f.ID)
		}
		for id := range happens {
			wrong = append(wrong, fmt.Sprintf("%s: there is no fault %s", s.Title, id))
		}
		for id := range absence {
			wrong = append(wrong, fmt.Sprintf("%s: there is no fault %s", s.Title, id))
		}
	}
	return wrong
}

// Every answer in the tables names a test, and the test exists.
func TestPromises(t *testing.T) {
	if len(Names) != len(Sections()) {
		t.Errorf("%d stores, but %d sections", len(Names), len(Sections()))
	}
	for i, s := range Sections() {
		if s.Store != Store(i) {
			t.Errorf("section %d is the section of %s", i, s.Store)
		}
	}
	var wrong []string
	declared := reader()
	for _, p := range Library {
		wrong = append(wrong, absent(p.What, p.Tests, declared)...)
	}
	wrong = append(wrong, unproved(Promises, declared)...)
	wrong = append(wrong, uncovered(Sections(), declared)...)
	for _, w := range wrong {
		t.Error(w)
	}
}

func TestPromises_canFail(t *testing.T) {
	declared := func(file string) (map[string][]string, error) {
		if file == "b_test.go" {
			return nil, os.ErrNotExist
		}
		return map[string][]string{"TestA": {"quick"}, "TestEach": {"redis,_quick", "sqlite"}}, nil
	}
	a := []Test{"a_test.go:TestA well"}
	full := func(c ...Claim) []Promise {
		cells := map[Store][]Claim{}
		for _, s := range stores() {
			cells[s] = []Claim{{Yes, "", "", a}}
		}
		cells[Redis] = c
		return []Promise{{"P", "", cells}}
	}
	for want, ps := range map[string][]Promise{
		"":                              full(Claim{Yes, "", "", a}, Claim{No, "then", "", a}),
		"P, Redis: the cell is missing": full(),
		"P, Redis, : no test shows it":  full(Claim{No, "", "", nil}),
		"P, Redis, : there is no TestB in a_test.go": full(Claim{Yes, "", "",
			[]Test{"a_test.go:TestB"}}),
		"P, Redis, : there is no TestA/slow in a_test.go": full(Claim{Yes, "", "",
			[]Test{"a_test.go:TestA/slow"}}),
		"P, Redis, : there is no TestEach/redis in a_test.go": full(Claim{Yes, "", "",
			[]Test{"a_test.go:TestEach/redis,_quick", "a_test.go:TestEach/redis"}}),
		"P, Redis, : TestEach has a subtest for each store, and none is named": full(Claim{Yes, "", "",
			[]Test{"a_test.go:TestEach"}}),
		"P, Redis, : TestEach/sqlite runs on SQLite": full(Claim{Yes, "", "",
			[]Test{"a_test.go:TestA/quick", "a_test.go:TestEach/sqlite"}}),
		"P, Redis, : TestA is not a test of Redis": full(Claim{Yes, "", "",
			[]Test{"store/redis/a_test.go:TestA", "store/mem/a_test.go:TestA"}}),
		"P, Redis, : file does not exist": full(Claim{Yes, "", "",
			[]Test{"b_test.go:TestA"}}),
		"P, Redis, neither a promise nor a reason for its absence": full(Claim{}),
		"P, Redis, why: does not apply, but has tests or more claims": full(Claim{NotApplicable,
			"why", "", a}),
	} {
		if got := strings.Join(unproved(ps, declared), ", "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var ids []string
	for _, f := range Faults {
		ids = append(ids, f.ID)
	}
	for want, s := range map[string]Section{
		"":                                       {Rows: []Row{{Under: ids, Tests: a}}},
		"S: no row for F01, crash of the holder": {Title: "S", Rows: []Row{{Under: ids[1:], Tests: a}}},
		"S: F02 pause of the holder is listed as possible and as impossible": {Title: "S",
			Rows: []Row{{Under: ids, Tests: a}}, Absent: []Absence{{ids[1:2], "why"}}},
		"S: [F01] without a reason": {Title: "S", Rows: []Row{{Under: ids[1:], Tests: a}},
			Absent: []Absence{{ids[:1], ""}}},
		"S: there is no fault F99": {Title: "S",
			Rows: []Row{{Under: append(slices.Clone(ids), "F99"), Tests: a}}},
		"S, x: no test shows it": {Title: "S", Rows: []Row{{Under: ids, Fault: "x"}}},
	} {
		if got := strings.Join(uncovered([]Section{s}, declared), ", "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The pages match the tables.
func TestPages(t *testing.T) {
	page, err := Guarantees()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "docs/guarantees.md", func(string) string { return page })
	same(t, "README.md", func(old string) string {
		head, rest, ok1 := strings.Cut(old, begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("README.md has no lines %q and %q around the table", begin, end)
		}
		return head + begin + "\n\n" + README() + "\n" + end + tail
	})
}

// begin and end enclose the table in README.md.
const (
	begin = "<!-- promises: written by make docs from internal/promise -->"
	end   = "<!-- promises end -->"
)

// same fails the test if a file differs from the wanted text. With -update it writes the file.
func same(t *testing.T, name string, want func(old string) string) {
	t.Helper()
	file := filepath.Join(root, name)
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	now := want(string(old))
	switch {
	case now == string(old):
	case *update:
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the tables in internal/promise: %s\nrun `make docs`", name,
			differs(string(old), now))
	}
}

// differs returns the first line in which two texts differ.
func differs(old, now string) string {
	o, n := strings.Split(old, "\n"), strings.Split(now, "\n")
	for i := range min(len(o), len(n)) {
		if o[i] != n[i] {
			return fmt.Sprintf("line %d\n  is     %s\n  should %s", i+1, o[i], n[i])
		}
	}
	return fmt.Sprintf("%d lines, and should have %d", len(o), len(n))
}

var linked = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// wordy returns the cells in the tables of a page that have more than mostWords words.
func wordy(page string) []string {
	var long []string
	for i, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			if n := len(strings.Fields(linked.ReplaceAllString(cell, "$1"))); n > mostWords {
				long = append(long, fmt.Sprintf("line %d: a cell of %d words: %s", i+1, n, cell))
			}
		}
	}
	return long
}

func TestPages_readable(t *testing.T) {
	page, err := Guarantees()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wordy(page + README()) {
		t.Error(w)
	}
	if got := len(wordy("| " + strings.Repeat("word ", mostWords+1) + "|\n")); got != 1 {
		t.Errorf("%d long cells, want 1", got)
	}
	head, _, _ := strings.Cut(README(), "\n")
	if n := strings.Count(head, "|") - 1; n > 7 {
		t.Errorf("the table in README.md has %d columns: more than a page shows", n)
	}
}

// The page links every test that it names, so the text around the tables names no missing test.
func TestPages_links(t *testing.T) {
	page, err := Guarantees()
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("\\[`(Test[^`]+)`\\]\\(\\.\\./([^)]+)\\)")
	declared := reader()
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		for _, w := range absent("docs/guarantees.md", []Test{Test(m[2] + ":" + m[1])}, declared) {
			t.Error(w)
		}
	}
	for _, m := range regexp.MustCompile("`Test\\w+`").FindAllString(named.ReplaceAllString(page, ""), -1) {
		t.Errorf("docs/guarantees.md: %s is named without a link to its file", m)
	}
}

// The page groups the figures of one run under the command that measured them.
func TestPages_nightly(t *testing.T) {
	got := nightly([]Figure{
		{"redis", "b", "1", 7, "make nightly", "2026-01-02"},
		{"redis", "soak", "2", 8, "make soak", "2026-01-03"},
		{"sqlite", "a", "3", 7, "make nightly", "2026-01-02"},
	})
	const want = "`make nightly`, seed 7, 2026-01-02:\n\n| figure | store | value |\n|---|---|---|\n| a | sqlite | 3 |\n| b | redis | 1 |\n\n" +
		"`make soak`, seed 8, 2026-01-03:\n\n| figure | store | value |\n|---|---|---|\n| soak | redis | 2 |\n"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := nightly(nil); !strings.HasPrefix(got, "No long run") {
		t.Error(got)
	}
}
