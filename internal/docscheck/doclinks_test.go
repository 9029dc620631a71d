package docscheck_test

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A namedPackage is what doc comments of a package may link.
type namedPackage struct {
	names   map[string]bool   // Name, Type.Method, Type.Field
	imports map[string]string // path by name
}

func (p *namedPackage) add(f *ast.File) {
	for _, i := range f.Imports {
		full, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(full)
		if regexp.MustCompile(`^v\d+$`).MatchString(name) {
			name = path.Base(path.Dir(full))
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		p.imports[name] = full
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name, _ := callable(d); name != "" {
				p.names[name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						p.names[n.Name] = true
					}
				case *ast.TypeSpec:
					p.names[s.Name.Name] = true
					for _, m := range members(s.Type) {
						p.names[s.Name.Name+"."+m] = true
					}
				}
			}
		}
	}
}

// members returns the fields of a struct, or the methods of an interface.
func members(t ast.Expr) (names []string) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// docComments returns the doc comments of a file's package and of its exported declarations, by
// name. A group has the names of all that it declares.
func docComments(f *ast.File) map[string]string {
	docs := map[string]string{"package " + f.Name.Name: f.Doc.Text()}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name, ok := callable(d); ok {
				docs[name] = d.Doc.Text()
			}
		case *ast.GenDecl:
			var all []string
			for _, s := range d.Specs {
				var names []string
				var text string
				switch s := s.(type) {
				case *ast.TypeSpec:
					names, text = []string{s.Name.Name}, s.Doc.Text()
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
					text = s.Doc.Text()
				}
				if names = slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) }); len(names) > 0 {
					docs[strings.Join(names, " ")] = text
					all = append(all, names...)
				}
			}
			if len(all) > 0 {
				docs[strings.Join(all, " ")] += "\n\n" + d.Doc.Text()
			}
		}
	}
	return docs
}

var (
	mention  = regexp.MustCompile(`(?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?`)
	unlinked = regexp.MustCompile(`\[\*?[A-Za-z.]*[A-Z]\w*\]`)
	number   = regexp.MustCompile(`\d\*$`) // of a product, such as 20*time.Millisecond
	mixed    = regexp.MustCompile(`[a-z][A-Z]`)
)

// badLinks returns what is wrong in the doc comment of a name: brackets that link nothing, and
// other names that it mentions without a link anywhere. A name that is one common word, such as
// Lock, is not looked for.
func (p *namedPackage) badLinks(name, text string) (bad []string) {
	parser := comment.Parser{
		LookupPackage: func(name string) (string, bool) { full, ok := p.imports[name]; return full, ok },
		LookupSym: func(recv, name string) bool {
			return recv == "" && p.names[name] || p.names[recv+"."+name]
		},
	}
	linked := map[string]bool{}
	for _, n := range strings.Fields(name) {
		recv, _, _ := strings.Cut(n, ".")
		linked[n], linked[recv] = true, true
	}
	var plain strings.Builder
	var read func(ts []comment.Text)
	read = func(ts []comment.Text) {
		for _, t := range ts {
			switch t := t.(type) {
			case comment.Plain:
				plain.WriteString(string(t))
			case comment.Italic:
				plain.WriteString(string(t))
			case *comment.Link:
				read(t.Text)
			case *comment.DocLink:
				plain.WriteString("@") // [Env].Runs does not mention Runs
				for _, n := range []string{t.Name, t.Recv + "." + t.Name, path.Base(t.ImportPath) + "." + t.Name} {
					linked[n] = true
				}
			}
		}
		plain.WriteString("\n")
	}
	for _, b := range parser.Parse(text).Content {
		switch b := b.(type) {
		case *comment.Paragraph:
			read(b.Text)
		case *comment.Heading:
			read(b.Text)
		case *comment.List:
			for _, i := range b.Items {
				for _, in := range i.Content {
					if in, ok := in.(*comment.Paragraph); ok {
						read(in.Text)
					}
				}
			}
		}
	}
	all := plain.String()
	for _, s := range unlinked.FindAllString(all, -1) {
		bad = append(bad, s+" links nothing")
	}
	for _, at := range mention.FindAllStringIndex(all, -1) {
		m := all[at[0]:at[1]]
		if at[0] > 0 && (strings.ContainsRune("@./-_\"[", rune(all[at[0]-1])) || number.MatchString(all[:at[0]])) || linked[m] {
			continue
		}
		linked[m] = true // one finding is enough
		first, _, dotted := strings.Cut(m, ".")
		_, imported := p.imports[first]
		if dotted && imported || p.names[m] && (dotted || mixed.MatchString(m)) {
			bad = append(bad, m+" is not linked")
		}
	}
	return bad
}

// undocumentedDirs are packages that nobody reads with go doc.
var undocumentedDirs = regexp.MustCompile(`(^|/)(internal|examples|tests|tools|api|cmd|bench)(/|$)`)

// TestDocs_docLinks wants a link wherever a doc comment mentions another name.
func TestDocs_docLinks(t *testing.T) {
	t.Parallel()
	atRoot(t)
	packages := map[string]*namedPackage{}
	files := slices.DeleteFunc(source(t), func(f sourceFile) bool {
		return f.test || undocumentedDirs.MatchString(f.pkg) || ast.IsGenerated(f.ast)
	})
	for _, f := range files {
		p := packages[f.pkg]
		if p == nil {
			p = &namedPackage{map[string]bool{}, map[string]string{}}
			packages[f.pkg] = p
		}
		p.add(f.ast)
	}
	for _, f := range files {
		for name, text := range docComments(f.ast) {
			for _, bad := range packages[f.pkg].badLinks(name, text) {
				t.Errorf("%s: %s: %s", f.name, name, bad)
			}
		}
	}
}

func TestDocs_docLinks_canFail(t *testing.T) {
	const src = `package p

import "time"

type Store struct{ MinTTL int }

// Close closes.
func (s *Store) Close() { time.Now() }

var ErrHeld error

`
	for doc, want := range map[string]string{
		"It is [ErrHeld]. ErrHeld is linked once.": "",
		"It is ErrHeld.":                                  "ErrHeld is not linked",
		"See Store.Close, and then Store.Close.":          "Store.Close is not linked",
		"See [Store.Close] and [Store].MinTTL.":           "",
		"It reads time.Now. A Store is a common word.":    "time.Now is not linked",
		"It reads [time.Now]; e.g. \"ErrHeld\" is a text": "",
		"See [Store.Open] and [ErrLost].":                 "[Store.Open] links nothing|[ErrLost] links nothing",
		"Code:\n\n\tif err == ErrHeld {":                  "",
		"- a list of ErrHeld":                             "ErrHeld is not linked",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src+"// F does.\n// "+strings.ReplaceAll(doc, "\n", "\n// ")+"\nfunc F() {}\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		p := &namedPackage{map[string]bool{}, map[string]string{}}
		p.add(f)
		if got := strings.Join(p.badLinks("F", docComments(f)["F"]), "|"); got != want {
			t.Errorf("%q: %q, want %q", doc, got, want)
		}
	}
	if got := fmt.Sprint(undocumentedDirs.MatchString("server/access"), undocumentedDirs.MatchString("internal/queue")); got != "false true" {
		t.Error(got)
	}
}
