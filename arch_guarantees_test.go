package distlock_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testLink is how a page names a test: [`TestName`](../file_test.go).
var testLink = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// testName is a test that is named, linked or not.
var testName = regexp.MustCompile("`(Test\\w+)`")

// unproved returns what is wrong with the tables of a page of promises: every table has a column "shown by", every row of
// it links to a test, and every test that is named is linked and there. read gives a file of the project.
func unproved(name string, read func(string) ([]byte, error)) []string {
	page, err := read(name)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	column, table := -1, false
	for i, line := range strings.Split(string(page), "\n") {
		if !strings.HasPrefix(line, "|") {
			table = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !table:
			table = true
			column = slices.IndexFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "shown by" })
			if column < 0 {
				wrong = append(wrong, fmt.Sprintf("%d: a table without a column \"shown by\"", i+1))
			}
		case strings.Trim(line, "|-: ") == "":
		case column >= 0 && (column >= len(cells) || !testLink.MatchString(cells[column])):
			wrong = append(wrong, fmt.Sprintf("%d: a promise that no test shows: link to one as [`TestName`](../file_test.go)", i+1))
		}
	}
	for _, m := range testLink.FindAllSubmatch(page, -1) {
		test, file := string(m[1]), path.Join(path.Dir(name), string(m[2]))
		code, err := read(file)
		if err != nil || !strings.Contains(string(code), "\nfunc "+test+"(") {
			wrong = append(wrong, fmt.Sprintf("there is no %s in %s", test, file))
		}
	}
	for _, m := range testName.FindAllSubmatch(testLink.ReplaceAll(page, nil), -1) {
		wrong = append(wrong, fmt.Sprintf("%s is named without a link to its file", m[1]))
	}
	return wrong
}

func TestDocs_guarantees(t *testing.T) {
	for _, w := range unproved("docs/guarantees.md", os.ReadFile) {
		t.Errorf("docs/guarantees.md: %s", w)
	}
}

func TestDocs_guarantees_canFail(t *testing.T) {
	const head = "| promise | shown by |\n|---|---|\n"
	for page, want := range map[string]string{
		"words": "",
		head + "| it works | [`TestA`](../a_test.go): well |": "",
		head + "| it works | `TestA` |":                       "3: a promise that no test shows: link to one as [`TestName`](../file_test.go), TestA is named without a link to its file",
		head + "| it works | - |":                             "3: a promise that no test shows: link to one as [`TestName`](../file_test.go)",
		head + "| it works | [`TestB`](../a_test.go) |":       "there is no TestB in a_test.go",
		head + "| it works | [`TestA`](a_test.go) |":          "there is no TestA in docs/a_test.go",
		"| promise |\n|---|\n| it works |":                    "1: a table without a column \"shown by\"",
		"See `TestA`.":                                        "TestA is named without a link to its file",
	} {
		read := func(name string) ([]byte, error) {
			files := map[string]string{"docs/p.md": page, "a_test.go": "package p\n\nfunc TestA(t *testing.T) {}\n"}
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		}
		if got := strings.Join(unproved("docs/p.md", read), ", "); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}
