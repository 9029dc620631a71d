package promise

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A source returns the tests that a file of the module declares. Each test comes with the names of
// its subtests, as far as the names are literals in the source.
type source func(file string) (map[string][]string, error)

// reader returns a source with a cache, because many rows name the same file.
func reader() source {
	known := map[string]map[string][]string{}
	folders := map[string]*folder{}
	return func(file string) (map[string][]string, error) {
		if tests, ok := known[file]; ok {
			return tests, nil
		}
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return nil, err
		}
		dir := path.Dir(file)
		if folders[dir] == nil {
			f, err := parse(filepath.Join(root, dir))
			if err != nil {
				return nil, err
			}
			folders[dir] = f
		}
		known[file] = folders[dir].tests(path.Base(file))
		return known[file], nil
	}
}

// A folder holds the declarations in the test files of a package.
type folder struct {
	files map[string]*ast.File // by base name
	funcs map[string]*ast.FuncDecl
	vars  map[string]ast.Expr
}

func parse(dir string) (*folder, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	f := &folder{map[string]*ast.File{}, map[string]*ast.FuncDecl{}, map[string]ast.Expr{}}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		f.files[filepath.Base(name)] = file
		for _, d := range file.Decls {
			f.declare(d)
		}
	}
	return f, nil
}

// declare records functions, and variables with a value.
func (f *folder) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			f.funcs[d.Name.Name] = d
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					f.vars[name.Name] = v.Values[i]
				}
			}
		}
	}
}

func (f *folder) tests(file string) map[string][]string {
	all := map[string][]string{}
	for _, d := range f.files[file].Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
			all[fn.Name.Name] = f.subtests(fn)
		}
	}
	return all
}

// subtests returns the names of the subtests of a test: literals in calls of Run, literals in a
// list that the test passes to another function, and the keys of a map that the test or such a
// function ranges over.
func (f *folder) subtests(fn *ast.FuncDecl) []string {
	var names []string
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			names = append(names, f.keys(n.X)...)
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Run" && len(n.Args) > 0 {
				names = append(names, text(n.Args[0])...)
			}
			callee, ok := n.Fun.(*ast.Ident)
			if !ok || f.funcs[callee.Name] == nil {
				break
			}
			for _, arg := range n.Args {
				if list, ok := arg.(*ast.CompositeLit); ok {
					for _, e := range list.Elts {
						names = append(names, text(e)...)
					}
				}
			}
			ast.Inspect(f.funcs[callee.Name].Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.RangeStmt); ok {
					names = append(names, f.keys(r.X)...)
				}
				return true
			})
		}
		return true
	})
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], " ", "_") // as go test does
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keys returns the keys of a map literal, given directly or as a variable of the package.
func (f *folder) keys(e ast.Expr) []string {
	if id, ok := e.(*ast.Ident); ok {
		e = f.vars[id.Name]
	}
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	var names []string
	for _, e := range list.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			names = append(names, text(kv.Key)...)
		}
	}
	return names
}

// text returns the value of a string literal, or nil for other expressions.
func text(e ast.Expr) []string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if s, err := strconv.Unquote(l.Value); err == nil {
			return []string{s}
		}
	}
	return nil
}

// called are the names of the stores in tests, in the order of the constants.
var called = []string{"memory", "sqlite", "redis", "replicated", "redlock", "postgres", "mariadb", "advisory", "etcd", "remote"}

// homes are folders with tests of certain stores.
var homes = map[string][]Store{
	"store/mem/": {Memory}, "store/sqlite/": {SQLite}, "store/redis/": {Redis, Replicated},
	"store/quorum/":   {Redlock},
	"store/postgres/": {Postgres}, "store/mysql/": {MariaDB}, "store/pgadvisory/": {Advisory}, "store/etcd/": {Etcd},
	"store/remote/": {Remote}, "server/": {Remote},
}

// about returns the store of a subtest, which is the first word of its name.
func about(subtest string) (Store, bool) {
	first, _, _ := strings.Cut(strings.ReplaceAll(subtest, ",", "_"), "_")
	i := slices.Index(called, first)
	return Store(i), i >= 0
}

// elsewhere returns the reason why an existing test does not run on a store, or "". If neither the
// file nor the subtests of a test name a store, elsewhere accepts the test.
func elsewhere(t Test, s Store, subtests []string) string {
	for prefix, on := range homes {
		if strings.HasPrefix(t.File(), prefix) && !slices.Contains(on, s) {
			return "is not a test of " + s.String()
		}
	}
	_, subtest, named := strings.Cut(t.Name(), "/")
	if named {
		if on, ok := about(subtest); ok && on != s {
			return "runs on " + on.String()
		}
		return ""
	}
	for _, p := range subtests {
		if _, ok := about(p); ok {
			return "has a subtest for each store, and none is named"
		}
	}
	return ""
}

func TestSource_subtests(t *testing.T) {
	dir := t.TempDir()
	const text = `package a
var stores = map[string]int{"redis": 1, "sqlite": 2}
func each(t *testing.T, f func()) { for name := range stores { t.Run(name, nil) } }
func on(t *testing.T, names []string) { for _, name := range names { t.Run(name, nil) } }
func TestA(t *testing.T) { t.Run("redlock, one node", nil) }
func TestB(t *testing.T) { on(t, []string{"redis", "postgres"}); println("advisory") }
func TestC(t *testing.T) { for name := range map[string]bool{"with data": true} { t.Run(name, nil) } }
func TestD(t *testing.T) { each(t, nil) }
`
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := parse(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := f.tests("a_test.go")
	for name, want := range map[string][]string{
		"TestA": {"redlock,_one_node"}, "TestB": {"postgres", "redis"}, "TestC": {"with_data"},
		"TestD": {"redis", "sqlite"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}
