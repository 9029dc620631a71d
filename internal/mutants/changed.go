package main

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
)

// A change is the difference between a revision and the working tree.
type change struct {
	packages map[string]bool // folders; the root package is "."
	rows     map[string]bool // names of mutants whose rows differ
	tree     tree
}

// A tree answers questions about the packages.
type tree struct {
	hasGo   func(dir string) bool     // reports whether a folder has Go code
	imports func(pkg string) []string // returns the packages of this module that its test files import
}

// touches reports whether a mutant has to run again: its row differs, or the package that it
// breaks, or the package of its test, or a package that the test files there import. Indirect
// imports do not count; the sample covers them.
func (c change) touches(m mutant) bool {
	test := path.Clean(m.Pkg)
	return c.rows[m.Name] || c.packages[packageOf(m.File, c.tree.hasGo)] || c.packages[test] ||
		slices.ContainsFunc(c.tree.imports(test), func(pkg string) bool { return c.packages[pkg] })
}

// packagesOf returns the packages of the files.
func packagesOf(files []string, hasGo func(dir string) bool) map[string]bool {
	packages := map[string]bool{}
	for _, file := range files {
		if pkg := packageOf(file, hasGo); pkg != "" {
			packages[pkg] = true
		}
	}
	return packages
}

// packageOf returns the folder of the package of a file: the nearest folder with Go code. A
// Markdown file belongs to no package. If the nearest folder is the root, only Go code in the root
// itself and testdata belong to the root package.
func packageOf(file string, hasGo func(dir string) bool) string {
	if path.Ext(file) == ".md" {
		return ""
	}
	dir := folderOf(file, hasGo)
	if dir == "." && !strings.HasPrefix(file, "testdata/") &&
		(path.Dir(file) != "." || path.Ext(file) != ".go") {
		return ""
	}
	return dir
}

// folderOf returns the nearest folder above a file that has Go code, or the root.
func folderOf(file string, hasGo func(dir string) bool) string {
	dir := path.Dir(file)
	for dir != "." && !hasGo(dir) {
		dir = path.Dir(dir)
	}
	return dir
}

// hasGo reports whether a folder has Go code.
func hasGo(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(files) > 0
}

// testImports returns the packages of this module that the test files of a package import.
func testImports(pkg string) (all []string) {
	mod, _ := os.ReadFile("go.mod")
	first, _, _ := strings.Cut(string(mod), "\n")
	module := strings.TrimPrefix(first, "module ")
	files, _ := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			continue // the compiler reports it
		}
		for _, i := range tree.Imports {
			if p, _ := strconv.Unquote(i.Path.Value); p == module {
				all = append(all, ".")
			} else if p, ok := strings.CutPrefix(p, module+"/"); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// rowsOf returns the rows in the source of a table, by the name of the mutant: the text of the row,
// and the text of the function around it without the other rows.
func rowsOf(code string) map[string]string {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", code, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	rows := map[string]string{}
	for _, d := range tree.Decls {
		var around strings.Builder
		here, end := map[string]string{}, at(d.Pos())
		ast.Inspect(d, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			name := nameIn(lit)
			if name == "" {
				return true
			}
			here[name] = code[at(lit.Pos()):at(lit.End())]
			around.WriteString(code[end:at(lit.Pos())])
			end = at(lit.End())
			return false
		})
		around.WriteString(code[end:at(d.End())])
		// Commas separate the rows. One row more or less is no change of the others.
		rest := strings.Join(strings.Fields(strings.ReplaceAll(around.String(), ",", " ")), " ")
		for name, text := range here {
			rows[name] = text + rest
		}
	}
	return rows
}

// nameIn returns the name of the mutant in a literal, or "" if the literal is no mutant.
func nameIn(lit *ast.CompositeLit) string {
	for _, e := range lit.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, isName := pair.Key.(*ast.Ident)
		value, isText := pair.Value.(*ast.BasicLit)
		if isName && isText && key.Name == "Name" {
			name, _ := strconv.Unquote(value.Value)
			return name
		}
	}
	return ""
}

// rowsThatDiffer returns the names of the rows that are new or differ.
func rowsThatDiffer(before, after map[string]string) map[string]bool {
	names := map[string]bool{}
	for name, row := range after {
		if before[name] != row {
			names[name] = true
		}
	}
	return names
}
