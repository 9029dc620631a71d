package docscheck_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updateREADME = flag.Bool("readme", false, "write the examples again into README.md and the pages in docs that quote them")

// quoted matches a quotation on a page: a mark with the name of an example, and its code.
var quoted = regexp.MustCompile("(?s)<!-- example: (\\S+) -->\n(?:```go\n.*?```\n)?")

// TestREADME checks that the code in the README and on other pages is the code of examples that
// run.
func TestREADME(t *testing.T) {
	t.Parallel()
	atRoot(t)
	bodies := exampleBodies(t)
	for _, page := range []string{"README.md", "docs/fencing.md", "docs/guide.md", "docs/kinds.md", "docs/observability.md"} {
		quote(t, page, bodies)
	}
}

// quote compares the code of a page with the examples.
func quote(t *testing.T, page string, bodies map[string]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	want := quoted.ReplaceAllFunc(text, func(match []byte) []byte {
		n++
		name := string(quoted.FindSubmatch(match)[1])
		body, ok := bodies[name]
		if !ok {
			t.Errorf("%s quotes %s, and there is no such example", page, name)
			return match
		}
		return []byte("<!-- example: " + name + " -->\n```go\n" + body + "```\n")
	})
	if n < 4 {
		t.Errorf("%s quotes %d examples, fewer than 4: is the mark still <!-- example: NAME -->?", page, n)
	}
	if code := bytes.Count(want, []byte("```go\n")); code != n {
		t.Errorf("%s has %d blocks of Go, and %d of them are quoted from examples", page, code, n)
	}
	if bytes.Equal(text, want) {
		return
	}
	if !*updateREADME {
		t.Fatalf("%s does not quote the examples as they are: go test -run TestREADME ./internal/docscheck -args -readme", page)
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// exampleBodies returns the code of all functions in the example files, without their expected
// output.
func exampleBodies(t *testing.T) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	for _, dir := range []string{".", "locktest", "open", "fence", "fence/*", "adapter/*"} {
		files, err := filepath.Glob(dir + "/example*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, code, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Recv != nil {
					continue
				}
				body := string(code[fset.Position(fn.Body.Lbrace).Offset+1 : fset.Position(fn.Body.Rbrace).Offset])
				name := fn.Name.Name
				if dir := filepath.ToSlash(filepath.Dir(file)); dir != "." {
					name = dir + "." + name
				}
				bodies[name] = outdent(body)
			}
		}
	}
	return bodies
}

// outdent removes the indentation of a function's body, and the text from "// Output:" on.
func outdent(body string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(body, "\n") + "\n") {
		line = strings.TrimPrefix(line, "\t")
		if strings.HasPrefix(line, "// Output:") || strings.HasPrefix(line, "// Unordered output:") {
			break
		}
		b.WriteString(line)
	}
	return strings.TrimRight(b.String(), "\n\t ") + "\n"
}
