// Package docscheck_test checks the source tree and the documents: imports, comments, examples,
// links, words, and the code that pages quote. Its tests run in the root of the module.
package docscheck_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

var chdir = sync.OnceValue(func() error { return os.Chdir("../..") })

// atRoot makes a test that reads files run in the root of the module. It is called in tests and not
// before them: so go test knows which files they read, and runs them again if one has changed.
func atRoot(t *testing.T) {
	t.Helper()
	if err := chdir(); err != nil {
		t.Fatal(err)
	}
}

// A sourceFile is one Go file of the module, for any operating system.
type sourceFile struct {
	name string // path from the root
	pkg  string // the folder of its package; "." is the root
	test bool
	ast  *ast.File
}

// source parses all Go files of the module. It reads the files and does not run the go command, so
// that it finds the files of every operating system and works while a package does not build.
func source(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	for _, name := range tree(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		dir := path.Dir(name)
		if otherModule(dir) || strings.Contains(name, "testdata/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, sourceFile{name, dir, strings.HasSuffix(name, "_test.go"), f})
	}
	if len(files) < 5 {
		t.Fatalf("only %d Go files found: the test does not run in the module's root", len(files))
	}
	return files
}

// otherModule reports whether a folder belongs to a module other than the product's.
func otherModule(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(path.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// tree returns the project's files, without those of git and those that the Makefile builds.
func tree(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", ".tools", ".work", "bin", "dist"}, name) || path.Base(name) == "rapid" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && name != ".git" { // a file in a worktree, which git wrote
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
