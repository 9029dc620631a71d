package docscheck_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// shown are the packages, as patterns, that users call. Each of their functions and methods has an
// example that runs.
var shown = []string{".", "driver", "locktest", "open", "adapter/*", "fence", "fence/*", "store/*", "store/*/*"}

// serverOnly are packages that need a server, which a test has to start. Their examples need not
// run: they compile, and the tests of the package show that the calls work.
var serverOnly = []string{"store/postgres", "store/postgres/*", "store/pgadvisory", "store/mysql", "store/etcd", "store/remote", "fence/*"}

// verbs are the methods of the contract. A Locker calls them on a store. Other code calls them
// through the functions of package driver, whose examples show them.
var verbs = []string{"Features", "Acquire", "Renew", "Release", "Watch", "Show", "List", "RenewAll", "Break", "Inspect"}

// hidden are calls that need no example, each with the reason. Both pkg and call are patterns.
var hidden = []struct{ pkg, call, why string }{
	{"*", "*.Error", "the examples of calls that return an error print it"},
	{"*", "*.Is", "errors.Is calls it"},
	{"*", "*.Unwrap", "errors.Is and errors.As call it"},
	{"*", "*.String", "package fmt calls it"},
	{"*", "*.Format", "package fmt calls it"},
	{"*", "*.GoString", "package fmt calls it"},
	{"*", "*.LogValue", "package slog calls it"},
	{"*", "*.MarshalJSON", "package json calls it"},
	{"store/redis", "New", "it is for the authors of adapters; users call New of goredisstore or rueidisstore"},
	{"store/redis", "Calls.*", "it is for the authors of adapters"},
	{"driver", "Forward.*", "ExampleForward shows them together, and each forwards to a function with an example"},
}

// unshown returns the calls of a package without an example, and the examples that could run but do
// not.
func unshown(pkg string, files []sourceFile) []string {
	calls, examples := map[string]bool{}, map[string]bool{} // by name with an underscore; whether it runs
	for _, f := range files {
		if f.test {
			for _, e := range doc.Examples(f.ast) {
				examples[e.Name] = examples[e.Name] || e.Output != "" || e.EmptyOutput
			}
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if name, ok := callable(fn); ok && !silent(pkg, name) {
					calls[strings.ReplaceAll(name, ".", "_")] = true
				}
			}
		}
	}
	needsNone := slices.ContainsFunc(serverOnly, func(p string) bool { return matches(p, pkg) })
	var found []string
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		there, runs := false, false
		for name, r := range examples {
			if name == call || strings.HasPrefix(name, call+"_") {
				there, runs = true, runs || r
			}
		}
		switch {
		case !there:
			found = append(found, fmt.Sprintf("%s has no func Example%s", call, call))
		case !runs && !needsNone:
			found = append(found, fmt.Sprintf("Example%s has no // Output: comment, so it never runs", call))
		}
	}
	return found
}

// silent reports whether a call needs no example.
func silent(pkg, call string) bool {
	recv, method, isMethod := strings.Cut(call, ".")
	if isMethod && recv == "Store" && slices.Contains(verbs, method) {
		return true
	}
	return slices.ContainsFunc(hidden, func(h struct{ pkg, call, why string }) bool {
		return (h.pkg == "*" || matches(h.pkg, pkg)) && matches(h.call, call)
	})
}

func TestDocs_examples(t *testing.T) {
	t.Parallel()
	atRoot(t)
	byPackage := map[string][]sourceFile{}
	for _, f := range source(t) {
		if slices.ContainsFunc(shown, func(p string) bool { return matches(p, f.pkg) }) && !strings.Contains(f.pkg, "internal") {
			byPackage[f.pkg] = append(byPackage[f.pkg], f)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		for _, u := range unshown(pkg, byPackage[pkg]) {
			t.Errorf("package %s: %s. Every public call has an example: write one in example_test.go of that folder, with "+
				"its // Output:. If no example can be written, add the call to hidden in internal/docscheck, with the "+
				"reason; if the package needs a server, add the package to serverOnly", pkg, u)
		}
	}
}

func TestDocs_examples_canFail(t *testing.T) {
	const code = "package p\n\nfunc New() *Store { return nil }\n\ntype Store struct{}\n\nfunc (s *Store) Close() {}\n\nfunc (s *Store) Acquire() {}\n\n" +
		"func (s *Store) Error() string { return \"\" }\n\nfunc (s *Store) inner() {}\n\ntype lost int\n\nfunc (l lost) Loss() {}\n"
	example := func(name, output string) string {
		return "package p_test\n\nfunc Example" + name + "() {\n\tprintln()\n" + output + "}\n"
	}
	const output = "\t// Output: x\n"
	tests := []struct {
		pkg      string
		examples []string
		want     string
	}{
		{"store/mem", nil, "New has no func ExampleNew, Store_Close has no func ExampleStore_Close"},
		{"store/redis", nil, "Store_Close has no func ExampleStore_Close"},
		{"store/mem", []string{example("New", output), example("Store_Close_twice", output)}, ""},
		{"store/mem", []string{example("New", ""), example("Store_Close", "\t// Output:\n")}, "ExampleNew has no // Output: comment, so it never runs"},
		{"store/postgres", []string{example("New", ""), example("Store_Close", "")}, ""},
		{"store/mem", []string{example("New", output), example("Store_Closed", output)}, "Store_Close has no func ExampleStore_Close"},
	}
	for _, tt := range tests {
		var files []sourceFile
		for i, src := range append([]string{code}, tt.examples...) {
			f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, sourceFile{pkg: tt.pkg, test: i > 0, ast: f})
		}
		if got := strings.Join(unshown(tt.pkg, files), ", "); got != tt.want {
			t.Errorf("%s with %d examples: %q, want %q", tt.pkg, len(tt.examples), got, tt.want)
		}
	}
}
