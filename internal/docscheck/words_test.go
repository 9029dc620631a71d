package docscheck_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// retired are words that were used here with a meaning of their own. Each has a common word: notify
// or report, queue, attempt, task, the caller, again.
var retired = regexp.MustCompile(`(?i)(^|[^-\w])(told|asks|patrol|crowds?|part(y|ies)|in vain|anew|whoever|onlookers?)\b`)

// retiredNames are the same for identifiers, in lower case.
var retiredNames = strings.Fields(`
	turn turns crowd crowds patrol party parties spare spares seal sealed prolong dismiss tidy shake
	dissolve depart conclude law laws judge lane lanes porter feed feeds onlooker onlookers kin fuse
	told tell tells ask asks asked asking young mature forsake forsaken`)

// TestArch_words keeps retired words from coming back, in code, texts and documents.
func TestArch_words(t *testing.T) {
	t.Parallel()
	atRoot(t)
	names := map[string]bool{}
	for _, n := range retiredNames {
		names[n] = true
	}
	for _, file := range tree(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		generated := strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, ".connect.go") // from words of others too
		licence := strings.HasPrefix(path.Base(file), "LICENSE")
		if file == "internal/docscheck/words_test.go" || bytes.IndexByte(text, 0) >= 0 || generated || licence {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if w := retired.FindString(line); w != "" {
				t.Errorf("%s:%d: %q is a retired word: %s", file, i+1, w, strings.TrimSpace(line))
			}
		}
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && names[strings.ToLower(id.Name)] {
				t.Errorf("%v: %s is a retired name", fset.Position(id.Pos()), id.Name)
			}
			return true
		})
	}
}

// TestArch_sizes keeps the pages that a newcomer reads first short, and comments narrow: a reader
// finds the next line of a wide comment with difficulty.
func TestArch_sizes(t *testing.T) {
	t.Parallel()
	atRoot(t)
	for file, most := range map[string]int{"README.md": 149, "docs/architecture.md": 150} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, want at most %d", file, n, most)
		}
	}
	var comments, wide int
	for _, file := range tree(t) {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			comments++
			line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
			if utf8.RuneCountInString(line) > 100 {
				wide++
			}
		}
	}
	if wide > comments/10 {
		t.Errorf("%d of %d lines of comments are wider than 100 columns, want at most a tenth", wide, comments)
	}
	t.Logf("%d of %d lines of comments are wider than 100 columns", wide, comments)
}
