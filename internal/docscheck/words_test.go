package docscheck_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// retired are words that were used here with a meaning of their own. Each has a common word: notify
// or report, queue, attempt, task, the caller, again, next to, release. A line break may be inside.
var retired = regexp.MustCompile(`(?i)(?:^|[^-\w])(told|asks|patrols?|crowds?|part(?:y|ies)|in[\s/*#-]+vain|anew|whoever|onlookers?|beside|g(?:ive|ives|iving|iven|ave)[\s/*#-]+back)\b`)

// retiredNames are words of identifiers that were used here with a meaning of their own.
var retiredNames = strings.Fields(`
	place turn ask asked asking tell told young mature party parties patrol walk circle vain stake crowd room
	spare seal sealed prolong prolonged dismiss dismissed tidy shake dissolve depart conclude law
	judge lane wire bag porter feed onlooker kin fuse beside anew whoever forsake forsaken`)

// Names that are retired where they had a meaning of their own. Elsewhere they are common English:
// a line of text, the rest of a list, a handler that serves a request, a mail, a word of a command.
var (
	engineNames = strings.Fields(`line rest pass passes serve over part leave mail letter family families`)
	storeNames  = strings.Fields(`mail letter family families`)
	ruleNames   = strings.Fields(`word`)

	engine = []string{".", "driver", "internal/queue", "internal/keeper", "internal/deadlock"}
)

// foreignNames are identifiers of other libraries.
var foreignNames = []string{"WalkDir"}

// retiredText returns the retired words of a text, each after its line.
func retiredText(text string) (found []string) {
	for _, at := range retired.FindAllStringSubmatchIndex(text, -1) {
		found = append(found, fmt.Sprintf("%d: %s", 1+strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]))
	}
	return found
}

var word, symbol = regexp.MustCompile(`[A-Z]*[a-z]+|[A-Z]+`), regexp.MustCompile(`\w+`)

// split returns the words of an identifier, in lower case: HTTPTurn is http and turn.
func split(name string) (words []string) {
	for _, w := range word.FindAllString(name, -1) {
		upper := len(w) - len(strings.TrimLeft(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
		if upper > 1 && upper < len(w) {
			words = append(words, strings.ToLower(w[:upper-1]))
			w = w[upper-1:]
		}
		words = append(words, strings.ToLower(w))
	}
	return words
}

// retiredIn returns a word of an identifier that is retired in a file, or "".
func retiredIn(file, name string) string {
	if slices.Contains(foreignNames, name) {
		return ""
	}
	names := retiredNames
	switch dir := path.Dir(file); {
	case strings.HasSuffix(file, "_test.go"):
	case slices.Contains(engine, dir):
		names = slices.Concat(names, engineNames)
	case strings.HasPrefix(dir, "store/"):
		names = slices.Concat(names, storeNames)
	case dir == "drivertest", strings.HasPrefix(dir, "internal/lab/"):
		names = slices.Concat(names, ruleNames)
	}
	for _, w := range split(name) {
		if slices.Contains(names, w) || slices.Contains(names, strings.TrimSuffix(w, "s")) {
			return w
		}
	}
	return ""
}

// identifiers returns the identifiers of a Go file, or of SQL or Lua, each after its line.
func identifiers(file string, text []byte) ([]string, error) {
	var out []string
	switch path.Ext(file) {
	case ".go":
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				out = append(out, fmt.Sprintf("%d: %s", fset.Position(id.Pos()).Line, id.Name))
			}
			return true
		})
	case ".sql", ".lua":
		for i, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "--")
			for _, name := range symbol.FindAllString(code, -1) {
				out = append(out, fmt.Sprintf("%d: %s", i+1, name))
			}
		}
	}
	return out, nil
}

// TestArch_words keeps retired words from coming back, in code, texts and documents.
func TestArch_words(t *testing.T) {
	t.Parallel()
	atRoot(t)
	for _, file := range tree(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		generated := strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, ".connect.go") // from words of others too
		others := strings.HasPrefix(path.Base(file), "LICENSE") || strings.Contains(file, "/vendor/")
		if file == "internal/docscheck/words_test.go" || bytes.IndexByte(text, 0) >= 0 || generated || others {
			continue
		}
		for _, w := range retiredText(string(text)) {
			t.Errorf("%s:%s is a retired word", file, w)
		}
		names, err := identifiers(file, text)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, id := range names {
			_, name, _ := strings.Cut(id, ": ")
			if seen[name] {
				continue
			}
			seen[name] = true
			if w := retiredIn(file, name); w != "" {
				t.Errorf("%s:%s: %q is retired as a name", file, id, w)
			}
		}
	}
}

func TestArch_words_canFail(t *testing.T) {
	for text, want := range map[string]string{
		"the waiter was told so":               "1: told",
		"a\nb Asks":                            "2: Asks",
		"it waits in\n// vain":                 "1: in\n// vain",
		"a crowd, two parties; begin anew":     "1: crowd|1: parties|1: anew",
		"Whoever gives\n\t// back an onlooker": "1: Whoever|1: gives\n\t// back|2: onlooker",
		"a third-party task, in vane, asking":  "",
	} {
		if got := strings.Join(retiredText(text), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for id, want := range map[string]string{
		"a.go:turnEnds":                    "turn",
		"cmd/distlock/a_test.go:AskAgain":  "ask",
		"store/redis/lua/a.lua:ask_again":  "ask",
		"store/redis/a.go:mailBag":         "mail",
		"internal/queue/a.go:line":         "line",
		"internal/queue/a.go:Parties":      "parties",
		"internal/keeper/a.go:restOf":      "rest",
		"internal/keeper/a_test.go:restOf": "",
		"cmd/distlock/a.go:line":           "",
		"cmd/distlock/a.go:returned":       "",
		"cmd/distlock/a.go:mails":          "",
		"internal/testenv/a.go:WalkDir":    "",
		"a.go:HTTPTurn":                    "turn",
	} {
		file, name, _ := strings.Cut(id, ":")
		if got := retiredIn(file, name); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	for file, text := range map[string]string{
		"a.go":  "package p\n\n// turn\nvar turn = \"ask\"\n",
		"a.sql": "-- turn\n\nselect turn",
	} {
		got, err := identifiers(file, []byte(text))
		if err != nil || got[len(got)-1] != strings.Replace("N: turn", "N", map[string]string{"a.go": "4", "a.sql": "3"}[file], 1) {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}

// TestArch_sizes keeps the pages that a newcomer reads first short.
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
}

// wideComments returns the numbers of the lines of a Go file whose comments are wider than 100
// columns: a reader finds the next line of a wide comment with difficulty. The output of an
// example, and one long word, cannot be broken.
func wideComments(text string) (wide []int) {
	output := false
	for i, line := range strings.Split(text, "\n") {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//")
		output = ok && (output || strings.HasPrefix(comment, " Output:") || strings.HasPrefix(comment, " Unordered output:"))
		if !ok || output || !strings.ContainsRune(strings.TrimSpace(comment), ' ') {
			continue
		}
		if utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > 100 {
			wide = append(wide, i+1)
		}
	}
	return wide
}

func TestArch_wideComments(t *testing.T) {
	t.Parallel()
	atRoot(t)
	for _, file := range tree(t) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, ".connect.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range wideComments(string(text)) {
			t.Errorf("%s:%d: the comment is wider than 100 columns", file, line)
		}
	}
}

func TestArch_wideComments_canFail(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for text, want := range map[string]string{
		"// " + long:                      "[1]",
		"\t// " + long[:95]:               "[1]",
		"// " + long[:95]:                 "[]",
		"//\n// Output: " + long:          "[]",
		"// Output:\n// " + long:          "[]",
		"// Output:\n// a\n}\n// " + long: "[4]",
		"// " + strings.Repeat("x", 200):  "[]",
		"s := `" + long + long + "`":      "[]",
	} {
		if got := fmt.Sprint(wideComments(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
