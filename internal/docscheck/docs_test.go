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
)

// plain are methods whose name and signature say everything: a comment could only repeat it.
var plain = []string{"Error", "String", "Unwrap"}

// undocumented returns the exported names of a file that have no comment. A name in a group needs a
// comment of its own, a comment of the group, or a comment above it that names it.
func undocumented(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name, ok := callable(d); ok && d.Doc == nil {
				names = append(names, name)
			}
		case *ast.GenDecl:
			above := d.Doc.Text()
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						if s.Doc == nil && d.Doc == nil {
							names = append(names, s.Name.Name)
						}
						names = append(names, silentMethods(s)...)
					}
				case *ast.ValueSpec:
					if s.Doc != nil {
						above = s.Doc.Text()
					}
					for _, n := range s.Names {
						if n.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil && !strings.Contains(above, n.Name) {
							names = append(names, n.Name)
						}
					}
				}
			}
		}
	}
	return names
}

// callable returns the name under which users call d. It reports whether they can call it.
func callable(d *ast.FuncDecl) (string, bool) {
	if !d.Name.IsExported() {
		return "", false
	}
	if d.Recv == nil {
		return d.Name.Name, true
	}
	recv := d.Recv.List[0].Type
	for {
		switch r := recv.(type) {
		case *ast.StarExpr:
			recv = r.X
			continue
		case *ast.IndexExpr: // a type with a parameter
			recv = r.X
			continue
		case *ast.Ident:
			return r.Name + "." + d.Name.Name, r.IsExported() && !slices.Contains(plain, d.Name.Name)
		}
		return "", false
	}
}

// silentMethods returns the methods of an exported interface that have no comment.
func silentMethods(s *ast.TypeSpec) []string {
	in, ok := s.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var names []string
	for _, m := range in.Methods.List {
		for _, n := range m.Names {
			if n.IsExported() && m.Doc == nil && m.Comment == nil {
				names = append(names, s.Name.Name+"."+n.Name)
			}
		}
	}
	return names
}

func TestDocs_comments(t *testing.T) {
	t.Parallel()
	atRoot(t)
	commented := map[string]bool{} // by package folder: whether the package has a comment
	for _, f := range source(t) {
		if f.test {
			continue
		}
		commented[f.pkg] = commented[f.pkg] || packageComment(f.ast)
		if f.ast.Name.Name == "main" || strings.Contains("/"+f.pkg+"/", "/internal/") || ast.IsGenerated(f.ast) {
			continue
		}
		for _, name := range undocumented(f.ast) {
			t.Errorf("%s: %s has no comment", f.name, name)
		}
	}
	for pkg, ok := range commented {
		if !ok {
			t.Errorf("the package in folder %s has no package comment (\"Package name ...\", \"Command name ...\")", pkg)
		}
	}
}

// packageComment reports whether a file has the comment of its package or program.
func packageComment(f *ast.File) bool {
	text := f.Doc.Text()
	if f.Name.Name == "main" {
		return strings.HasPrefix(text, "Command ")
	}
	return strings.HasPrefix(text, "Package "+f.Name.Name+" ")
}

func TestDocs_comments_canFail(t *testing.T) {
	tests := []struct {
		src  string
		want string // names without a comment
	}{
		{"package p\nfunc F() {}", "F"},
		{"package p\n// F does.\nfunc F() {}", ""},
		{"package p\nfunc f() {}\ntype t int\nfunc (t) M() {}", ""},
		{"package p\n// T is.\ntype T int\nfunc (t *T) M() {}\nfunc (t T) String() string { return \"\" }", "T.M"},
		{"package p\n// T is.\ntype T[K any] struct{}\nfunc (t *T[K]) M() {}", "T.M"},
		{"package p\ntype T int", "T"},
		{"package p\n// T is.\ntype T interface {\n\tM()\n\t// N does.\n\tN()\n}", "T.M"},
		{"package p\nvar (\n\t// A and B are.\n\tA = 1\n\tB = 2\n\n\tC = 3\n)", "C"},
		{"package p\n// The levels.\nconst (\n\tA = iota\n\tB\n)", ""},
		{"package p\nconst A = 1 // one", ""},
	}
	for _, tt := range tests {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", tt.src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(undocumented(f), " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.src, got, tt.want)
		}
		if packageComment(f) {
			t.Errorf("%q: has no package comment, and none is missed", tt.src)
		}
	}
}

// alien are texts that do not belong in the project, each with the reason. This file is not
// searched: it contains them.
var alien = []struct {
	re  *regexp.Regexp
	why string
}{
	{regexp.MustCompile("(?m)(^|[\\s\"'`(=:])(/(home|Users|root|work)/\\w|[A-Z]:\\\\Users)"), "a path of one machine means nothing on another"},
	{regexp.MustCompile(`(?i)\b(issue|bug|ticket|fixes|closes|resolves|pr)\s+#?\d+\b|\s\(#\d+\)`), "the text must say why by itself: numbers of a tracker are gone with it"},
	{regexp.MustCompile(`\b(FIXME|XXX|HACK)\b|\bTODO\b[^(]`), "a TODO has an owner and a reason: TODO(name): why"},
	{regexp.MustCompile(`(?m)^(<{7}|>{7}|\|{7}) `), "a merge was left half done"},
}

// aliens returns the lines of a text that contain an alien text.
func aliens(text []byte) []string {
	var found []string
	for _, a := range alien {
		for _, at := range a.re.FindAllIndex(text, -1) {
			line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
			found = append(found, fmt.Sprintf("%d: %q: %s", line, bytes.TrimSpace(text[at[0]:at[1]]), a.why))
		}
	}
	return found
}

func TestDocs_words(t *testing.T) {
	t.Parallel()
	atRoot(t)
	for _, name := range tree(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "internal/docscheck/docs_test.go" || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for _, a := range aliens(text) {
			t.Errorf("%s:%s", name, a)
		}
	}
}

func TestDocs_words_canFail(t *testing.T) {
	for text, want := range map[string]int{
		"see /home/ann/x":            1,
		"cp '/Users/ann/x' .":        1,
		"cd /work/tree":              1,
		`in C:\Users\ann`:            1,
		"fixes #12":                  1,
		"repair the parser (#12)":    1,
		"// TODO: later":             1,
		"// TODO(ann): when Go 1.30": 0,
		"<<<<<<< HEAD":               1,
		"#123456 is a colour":        0,
		"/usr/bin/env, /var/lib/x":   0,
		"mktemp x.XXXXXX":            0,
		"https://example.com/work/x": 0,
	} {
		if got := aliens([]byte(text)); len(got) != want {
			t.Errorf("%q: %q, want %d findings", text, got, want)
		}
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```|`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*$`)
	unslug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// deadLinks returns the links of a page to files or headings that do not exist. The function read
// returns a file of the project, or an error.
func deadLinks(name string, read func(string) ([]byte, error)) []string {
	page, err := read(name)
	if err != nil {
		return []string{err.Error()}
	}
	var dead []string
	for _, m := range link.FindAllSubmatch(fenced.ReplaceAll(page, nil), -1) {
		to := string(m[1])
		if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(to, "#")
		target := name
		if file != "" {
			target = path.Join(path.Dir(name), file)
		}
		text, err := read(target)
		if err != nil {
			dead = append(dead, to+": no such file")
		} else if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(text), anchor) {
			dead = append(dead, to+": no such heading")
		}
	}
	return dead
}

// anchors returns the link targets of the headings of a page.
func anchors(page []byte) []string {
	var names []string
	for _, m := range heading.FindAllSubmatch(page, -1) {
		s := unslug.ReplaceAllString(strings.ToLower(string(m[1])), "")
		names = append(names, strings.ReplaceAll(s, " ", "-"))
	}
	return names
}

func TestDocs_links(t *testing.T) {
	t.Parallel()
	atRoot(t)
	read := func(name string) ([]byte, error) {
		if i, err := os.Stat(name); err == nil && i.IsDir() {
			return nil, nil // a link to a folder
		}
		return os.ReadFile(name)
	}
	for _, name := range tree(t) {
		if strings.HasSuffix(name, ".md") {
			for _, d := range deadLinks(name, read) {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
}

func TestDocs_links_canFail(t *testing.T) {
	files := map[string]string{
		"a.md":      "# Top\n[b](docs/b.md) [c](docs/b.md#one-two) [t](#top) [w](https://example.com)\n```\n[x](none.md)\n```\n`[x](none)`\n",
		"d.md":      "[b](b.md) [h](docs/b.md#three) [i](#none)",
		"docs/b.md": "## One: two\n[a](../a.md)",
	}
	read := func(name string) ([]byte, error) {
		if s, ok := files[name]; ok {
			return []byte(s), nil
		}
		return nil, os.ErrNotExist
	}
	for name, want := range map[string]int{"a.md": 0, "d.md": 3, "docs/b.md": 0, "none.md": 1} {
		if got := deadLinks(name, read); len(got) != want {
			t.Errorf("%s: %q, want %d dead links", name, got, want)
		}
	}
}

// Every test and every mutant that docs/faults.md names exists.
func TestDocs_faults(t *testing.T) {
	t.Parallel()
	atRoot(t)
	page, err := os.ReadFile("docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests, mutants strings.Builder
	for _, file := range tree(t) {
		to := &tests
		if strings.HasPrefix(file, "internal/mutants/") {
			to = &mutants
		} else if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		to.Write(text)
	}
	rows := regexp.MustCompile("(?m)^\\|.*\\| `(Test\\w+)` \\| `([\\w-]+)` \\|$").FindAllSubmatch(page, -1)
	if len(rows) < 30 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if test := "func " + string(row[1]) + "("; !strings.Contains(tests.String(), test) {
			t.Errorf("there is no test %s", row[1])
		}
		if name := `Name: "` + string(row[2]) + `"`; !strings.Contains(mutants.String(), name) {
			t.Errorf("there is no mutant %s", row[2])
		}
	}
}
