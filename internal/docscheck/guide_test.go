package docscheck_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testLink = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)#]+)\\)")
	testName = regexp.MustCompile("`(Test\\w+)`")
)

// shownBy returns the errors in the test names of a page. In a table with a column "shown by",
// every row links to a test, every link leads to that test, and no test is named without a link.
func shownBy(name string, read func(string) ([]byte, error)) []string {
	page, err := read(name)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	column, table, tables := -1, false, 0
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
			if column >= 0 {
				tables++
			}
		case strings.Trim(line, "|-: ") == "":
		case column >= 0 && (column >= len(cells) || !testLink.MatchString(cells[column])):
			wrong = append(wrong, fmt.Sprintf("%d: no test shows it: link to one as [`TestName`](../file_test.go)", i+1))
		}
	}
	if tables == 0 {
		wrong = append(wrong, "no table has a column \"shown by\"")
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

// TestDocs_guide checks that every mistake in the guide has a test that makes it.
func TestDocs_guide(t *testing.T) {
	atRoot(t)
	for _, w := range shownBy("docs/guide.md", os.ReadFile) {
		t.Errorf("docs/guide.md: %s", w)
	}
}

func TestDocs_guide_canFail(t *testing.T) {
	const head = "| mistake | shown by |\n|---|---|\n"
	const missing = "no test shows it: link to one as [`TestName`](../file_test.go)"
	for page, want := range map[string]string{
		"words": "no table has a column \"shown by\"",
		"| a | b |\n|---|---|\n| c | d |\n\n" + head + "| no TTL | [`TestA`](../a_test.go): well |": "",
		head + "| no TTL | `TestA` |":                 "3: " + missing + ", TestA is named without a link to its file",
		head + "| no TTL | - |":                       "3: " + missing,
		head + "| no TTL | [`TestB`](../a_test.go) |": "there is no TestB in a_test.go",
		head + "| no TTL | [`TestA`](a_test.go) |":    "there is no TestA in docs/a_test.go",
	} {
		read := func(name string) ([]byte, error) {
			files := map[string]string{"docs/p.md": page, "a_test.go": "package p\n\nfunc TestA(t *testing.T) {}\n"}
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		}
		if got := strings.Join(shownBy("docs/p.md", read), ", "); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}
