package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A piece is a declaration of a test file.
type piece struct {
	text     string
	declares []string
	receiver string          // the type, of a method
	uses     map[string]bool // all names in it, whatever they mean there
	dotted   map[string]bool // those before a dot: packages are among them
	needed   bool
}

// A testFile is a test file in pieces.
type testFile struct {
	head    string // up to the name of the package
	imports []*ast.ImportSpec
	pieces  []*piece
}

// trim returns the test files of a package with no more in them than a test needs; the text of a file that is not needed is empty. To
// compile all tests of a large package takes several times as long as to compile the package itself.
//
// Names are compared without regard to scopes: a piece may be kept that is not needed, and never the other way round. An import may be
// kept that is not used, which does not compile: then the tests are used as they are.
func trim(dir, test string) (map[string]string, error) {
	files, err := testFiles(dir)
	if err != nil {
		return nil, err
	}
	top, _, _ := strings.Cut(test, "/")
	mark(files, top)
	out := map[string]string{}
	for path, f := range files {
		out[path] = f.rest()
	}
	return out, nil
}

// mark finds the pieces that a test needs.
func mark(files map[string]*testFile, test string) {
	known := map[string]bool{test: true, "TestMain": true, "init": true}
	for more := true; more; {
		more = false
		for _, f := range files {
			for _, p := range f.pieces {
				if p.needed || !p.wanted(known) {
					continue
				}
				p.needed, more = true, true
				maps.Copy(known, p.uses)
			}
		}
	}
}

// wanted reports whether one of the names is declared in p, or has it as a method.
func (p *piece) wanted(known map[string]bool) bool {
	if p.receiver != "" {
		return known[p.receiver] || known[p.declares[0]] // export_test.go may give a method to a type of the package
	}
	for _, name := range p.declares {
		if known[name] || name == "_" {
			return true
		}
	}
	return false
}

// rest is the file with the needed pieces only.
func (f *testFile) rest() string {
	var body strings.Builder
	dotted := map[string]bool{}
	for _, p := range f.pieces {
		if p.needed {
			body.WriteString(p.text + "\n\n")
			maps.Copy(dotted, p.dotted)
		}
	}
	if body.Len() == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(f.head + "\n\n")
	for _, i := range f.imports {
		name := importName(i)
		if name != "_" && name != "." && !dotted[name] {
			continue
		}
		b.WriteString("import ")
		if i.Name != nil {
			b.WriteString(i.Name.Name + " ")
		}
		b.WriteString(i.Path.Value + "\n")
	}
	return b.String() + "\n" + body.String()
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// importName is the name by which a file knows a package.
func importName(i *ast.ImportSpec) string {
	if i.Name != nil {
		return i.Name.Name
	}
	p, _ := strconv.Unquote(i.Path.Value) // it was parsed
	if version.MatchString(path.Base(p)) {
		p = path.Dir(p)
	}
	name := strings.TrimPrefix(path.Base(p), "go-")
	name, _, _ = strings.Cut(name, ".")
	return strings.ReplaceAll(name, "-", "")
}

// testFiles reads the test files of a folder, by path.
func testFiles(dir string) (map[string]*testFile, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]*testFile{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		code, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if files[path], err = cut(code); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// cut takes a file to pieces.
func cut(code []byte) (*testFile, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", code, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	f := &testFile{head: string(code[:at(tree.Name.End())]), imports: tree.Imports}
	for _, d := range tree.Decls {
		p := &piece{uses: map[string]bool{}, dotted: map[string]bool{}}
		from := d.Pos()
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.declares = []string{d.Name.Name}
			if d.Recv != nil {
				p.receiver = receiver(d.Recv.List[0].Type)
			}
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			p.declares = names(d)
			if d.Doc != nil {
				from = d.Doc.Pos() // it may be an order to the compiler
			}
		}
		p.text = string(code[at(from):at(d.End())])
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				p.uses[n.Name] = true
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok {
					p.dotted[id.Name] = true
				}
			}
			return true
		})
		f.pieces = append(f.pieces, p)
	}
	return f, nil
}

// names are what a declaration declares.
func names(d *ast.GenDecl) (all []string) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			all = append(all, s.Name.Name)
		case *ast.ValueSpec:
			for _, n := range s.Names {
				all = append(all, n.Name)
			}
		}
	}
	return all
}

// receiver is the name of the type in *T, T[K] or T.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
