package apicheck

import (
	"flag"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of testdata")

// root is the folder of the module, relative to this package.
const root = "../.."

// TestAPI compares the API of every public package with its file in testdata.
func TestAPI(t *testing.T) {
	known, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for file, lines := range public(t) {
		file = filepath.Join("testdata", file)
		known = slices.DeleteFunc(known, func(k string) bool { return k == file })
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		old, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if d := diff(strings.Split(strings.TrimSpace(string(old)), "\n"), lines); d != "" {
			t.Errorf("the public API differs from %s:\n%sif this is intended: run `make api`, and add a line to CHANGELOG.md", filepath.ToSlash(file), d)
		}
	}
	for _, gone := range known {
		if *update {
			if err := os.Remove(gone); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s describes a package that is gone; if this is intended: run `make api`, and add a line to CHANGELOG.md", gone)
	}
}

// public returns the API of every package that users can import, by the name of its file.
func public(t *testing.T) map[string][]string {
	t.Helper()
	apis := map[string][]string{}
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != root {
			name := d.Name()
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || name == "internal" || name == "testdata" || strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
		}
		if lines := api(t, dir); len(lines) > 0 {
			rel, err := filepath.Rel(root, dir)
			if err != nil {
				return err
			}
			if rel == "." {
				rel = "distlock"
			}
			apis[strings.ReplaceAll(filepath.ToSlash(rel), "/", "_")+".txt"] = lines
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(apis["driver.txt"]) == 0 {
		t.Fatal("package driver was not found: the test searches the wrong folder")
	}
	return apis
}

// api describes the package in a folder as compiled on Linux. The API is the same on all systems,
// and a file for another system would repeat it.
func api(t *testing.T, dir string) []string {
	t.Helper()
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled = "linux", "amd64", false
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, ".connect.go") {
			continue // generated: the test of package api compares the descriptor
		}
		if ok, err := linux.MatchFile(dir, filepath.Base(name)); err != nil || !ok || strings.HasSuffix(name, "_test.go") {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name.Name != "main" {
			files = append(files, f)
		}
	}
	return Describe(fset, files)
}

// diff returns the lines that were removed and added. Both lists are sorted sets, so this shows
// every change.
func diff(old, now []string) string {
	var b strings.Builder
	for _, l := range old {
		if l != "" && !slices.Contains(now, l) {
			b.WriteString("- " + l + "\n")
		}
	}
	for _, l := range now {
		if !slices.Contains(old, l) {
			b.WriteString("+ " + l + "\n")
		}
	}
	return b.String()
}

func TestDescribe(t *testing.T) {
	const src = `package p

const (
	A int = iota
	B
	c
)
const D = 1 << 3
var E, f = 1, 2
var G error
type H struct {
	I, j int
	K string ` + "`json:\"k\"`" + `
	L
}
type L interface {
	M(a, b int) (c string, err error)
	n()
	error
}
type N[T any] []T
type O = N[int]
type q int
func (q) R() {}
func (h *H) S(f func(int) bool) {}
func (n N[T]) U() T { panic(0) }
func V[T ~int](t ...T) {}
func w() {}
`
	want := strings.TrimSpace(`
const A int = iota (iota 0)
const B int = iota (iota 1)
const D = 1 << 3
func V[T ~int](t ...T)
method (*H) S(f func(int) bool)
method (N[T]) U() T
type H struct
type H struct, I int
type H struct, K string ` + "`json:\"k\"`" + `
type H struct, embedded L
type L interface
type L interface, M(a, b int) (c string, err error)
type L interface, embedded error
type L interface, unexported methods
type N[T any] []T
type O = N[int]
var E
var G error
`)
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := Describe(fset, []*ast.File{f})
	if d := diff(strings.Split(want, "\n"), got); d != "" {
		t.Errorf("want -, have +:\n%s", d)
	}
}

func TestDiff(t *testing.T) {
	if d := diff([]string{"a", "b"}, []string{"b", "c"}); d != "- a\n+ c\n" {
		t.Errorf("%q", d)
	}
	if d := diff([]string{"a"}, []string{"a"}); d != "" {
		t.Errorf("%q", d)
	}
}
