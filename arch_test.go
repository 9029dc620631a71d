package distlock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of the product's module. Names of packages below are relative to it;
// the root package is ".".
const module = "github.com/distlock/distlock"

// A layer says what the production code of a package may import beside the standard library.
type layer struct {
	pkg string   // a package, or a pattern of path.Match
	may []string // packages of this module, or patterns
	out bool     // whether modules of others may be imported
	lab bool     // whether it is made for tests: it may import testing and the test-only packages
	why string
}

// layers is the only direction of imports. The first row that matches a package rules it. A
// package without a row fails the test: add one, with its reason.
var layers = []layer{
	{pkg: ".", may: []string{"driver", "internal/keeper", "internal/backoff", "internal/deadlock", "internal/queue"},
		why: "whoever locks with one store must not compile the clients of all the others"},
	{pkg: "driver",
		why: "the contract: everything may lean on it, it leans on nothing"},
	{pkg: "internal/backoff",
		why: "arithmetic of pauses"},
	{pkg: "internal/typo",
		why: "letters and nothing else"},
	{pkg: "internal/keeper", may: []string{"driver", "internal/backoff"},
		why: "it renews by the contract and knows no kind of lock"},
	{pkg: "internal/queue", may: []string{"driver", "internal/backoff", "internal/keeper"},
		why: "it acquires and hands on claims by the contract, and knows no kind of lock"},
	{pkg: "internal/deadlock", may: []string{"driver"},
		why: "it reads who waits for whom by the contract, and knows no kind of lock"},
	{pkg: "fence", may: []string{"internal/guard", "internal/backoff"},
		why: "a guard stands beside the protected resource, where there may be no lock at all"},
	{pkg: "fence/redisfence", may: []string{"fence"},
		why: "the guard for Redis is a script: which client sends it is the user's choice"},
	{pkg: "fence/redisfence/*", may: []string{"fence/redisfence"}, out: true,
		why: "an adapter joins a client library to the guard"},
	{pkg: "fence/*", may: []string{"fence", "internal/guard"}, out: true,
		why: "a guard for one database links that database's client"},
	{pkg: "internal/guard",
		why: "statements of SQL: whoever runs them brings the database"},

	{pkg: "store/mem", may: []string{"driver"},
		why: "the reference; tests and users link it without anything else"},
	{pkg: "store/quorum", may: []string{"driver", "internal/backoff"},
		why: "a majority of any stores: it must not know which"},
	{pkg: "store/sqlite", may: []string{"driver", "internal/keeper"}, out: true,
		why: "its processes are on the holders' own host: its clock must count the time asleep as theirs do"},
	{pkg: "internal/protocol",
		why: "a few bytes to a port, for an error message"},
	{pkg: "internal/pgurl", may: []string{"internal/protocol"}, out: true,
		why: "what the URLs of the stores on PostgreSQL share"},
	{pkg: "store/postgres", may: []string{"driver", "internal/backoff", "internal/pgurl", "internal/protocol"}, out: true,
		why: "a store, as below"},
	{pkg: "store/pgadvisory", may: []string{"driver", "internal/keeper", "internal/pgurl", "internal/protocol"}, out: true,
		why: "the server counts how long a connection is idle, also while the holder's host is asleep: so must the store"},
	{pkg: "store/remote", may: []string{"driver", "server", "server/*"}, out: true,
		why: "the client of the lock server speaks the server's protocol"},
	{pkg: "store/*/*", may: []string{"driver", "store/redis", "internal/protocol", "internal/typo"}, out: true,
		why: "an adapter joins a client library to its own store"},
	{pkg: "store/*", may: []string{"driver", "internal/backoff"}, out: true,
		why: "a store carries every kind of lock because it knows none, and stands without the other stores"},

	{pkg: "open", may: []string{".", "driver", "store/*", "store/*/*", "internal/typo"}, out: true,
		why: "the one package that links all stores"},
	{pkg: "server", may: []string{"driver", "server/*"}, out: true,
		why: "it passes the contract on and adds no meaning"},
	{pkg: "server/*", may: []string{"driver", "server/*"}, out: true,
		why: "parts of the server"},
	{pkg: "adapter/otellock", may: []string{".", "driver"}, out: true, why: "an adapter over the public API"},
	{pkg: "adapter/httpidempotency", may: []string{".", "driver"}, why: "HTTP over the public API; it must cost no new module"},
	{pkg: "adapter/httpratelimit", may: []string{"."}, why: "HTTP over the public API; it must cost no new module"},
	{pkg: "adapter/gocronlock", may: []string{".", "driver"}, out: true, why: "an adapter over the public API"},
	{pkg: "adapter/robfigcron", may: []string{"."}, out: true, why: "an adapter over the public API"},
	{pkg: "examples/internal/process", why: "it starts a program again, and knows nothing of locks"},
	{pkg: "examples/*", may: []string{".", "store/*", "fence", "open", "adapter/*", "examples/internal/process"}, out: true, why: "programs as a user would write them"},
	{pkg: "cmd/*", may: []string{".", "driver", "fence", "open", "server", "server/*", "adapter/otellock", "internal/*", "internal/lab/torture", "internal/lab/history"}, out: true,
		why: "a program puts the parts together; stores reach it through open"},

	{pkg: "drivertest", may: []string{"driver", "store/mem", "internal/lab/history", "internal/lab/chaos", "internal/proxy"}, out: true, lab: true,
		why: "the contract as tests: the authors of stores run it, and compare with the memory store"},
	{pkg: "locktest", may: []string{".", "driver", "store/mem", "internal/lab/chaos"}, lab: true,
		why: "for users' own tests: it must cost them no new module"},
	{pkg: "internal/lab/chaos", may: []string{"driver"}, out: true, lab: true, why: "faults, for tests only"},
	{pkg: "internal/lab/history", may: []string{"driver"}, out: true, lab: true, why: "a judge of what happened, for tests only"},
	{pkg: "internal/lab/torture", may: []string{".", "driver", "internal/lab/chaos", "internal/lab/history", "internal/lab/workload"}, out: true,
		why: "a test that users run on their own store: it brings the faults and the judge along, see docs/adr/0017-torture.md"},
	{pkg: "internal/lab/workload", may: []string{".", "driver", "internal/lab/history"}, lab: true, why: "clients that contend, for tests only"},
	{pkg: "internal/proxy", lab: true, why: "a link that breaks, for tests only"},
	{pkg: "internal/testenv", may: []string{"driver", "internal/lab/chaos", "internal/proxy"}, out: true, lab: true, why: "real servers, for tests only"},
	{pkg: "tests/internal/faults", may: []string{".", "driver", "open", "fence", "fence/redisfence", "fence/redisfence/*", "store/quorum", "store/mem", "internal/lab/chaos", "internal/lab/history",
		"internal/testenv", "internal/lab/torture", "internal/lab/workload"}, out: true, lab: true,
		why: "real stores, broken: it plugs all of them in at one place, for tests only"},
	{pkg: "internal/apicheck", lab: true, why: "compares the public API with the one that is written down"},
	{pkg: "internal/*", may: []string{"driver", "internal/*"}, why: "inner parts follow the root package: no modules of others"},
}

// labs are the packages that production code does not import, but for a layer that names one outright.
var labs = []string{"internal/lab/chaos", "internal/lab/history", "internal/proxy", "internal/testenv", "internal/lab/workload", "tests/internal/faults", "internal/apicheck", "drivertest", "locktest"}

// labModules are packages of others for tests: see docs/adr/0007-test-dependencies.md and 0011-command-line.md.
var labModules = []string{
	"github.com/anishathalye/porcupine", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal/testscript",
}

// judge returns what is wrong with the import of imp by the production code of pkg.
func judge(pkg, imp string) string {
	at := slices.IndexFunc(layers, func(l layer) bool { return matches(l.pkg, pkg) })
	if at < 0 {
		return fmt.Sprintf("package %s has no row in layers: add one with its reason", pkg)
	}
	l := layers[at]
	own := imp == module || strings.HasPrefix(imp, module+"/")
	first, _, _ := strings.Cut(imp, "/")
	switch {
	case imp == "C":
		return pkg + " imports C: the product is built without cgo"
	case own:
		rel := path.Clean("./" + strings.TrimPrefix(imp, module))
		if slices.ContainsFunc(l.may, func(p string) bool { return matches(p, rel) }) && (l.lab || !slices.Contains(labs, rel) || slices.Contains(l.may, rel)) {
			return ""
		}
		return fmt.Sprintf("%s imports %s: %s", pkg, rel, l.why)
	case first == "testing" || imp == "net/http/httptest" || slices.Contains(labModules, imp):
		if l.lab && (l.out || !strings.Contains(first, ".")) {
			return ""
		}
		return fmt.Sprintf("%s imports %s: production code is not tied to tests", pkg, imp)
	case strings.Contains(first, "."):
		if l.out {
			return ""
		}
		return fmt.Sprintf("%s imports the module of others %s: %s", pkg, imp, l.why)
	}
	return ""
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	if err != nil {
		panic(err) // a pattern in the table above is wrong
	}
	return ok
}

func TestArch_imports(t *testing.T) {
	for _, f := range source(t) {
		if f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := judge(f.pkg, imp); wrong != "" {
				t.Errorf("%s: %s", f.name, wrong)
			}
		}
	}
}

func TestArch_imports_canFail(t *testing.T) {
	tests := []struct {
		pkg, imp string
		want     string // part of the complaint; empty: none
	}{
		{".", "context", ""},
		{".", module + "/driver", ""},
		{".", module + "/store/mem", ". imports store/mem"},
		{".", "github.com/jackc/pgx/v5", "module of others"},
		{".", "C", "without cgo"},
		{".", "testing", "not tied to tests"},
		{".", "testing/synctest", "not tied to tests"},
		{"driver", module, "driver imports ."},
		{"driver", "golang.org/x/sync/errgroup", "module of others"},
		{"internal/keeper", module, "internal/keeper imports ."},
		{"internal/keeper", module + "/internal/backoff", ""},
		{"internal/backoff", module + "/driver", "imports driver"},
		{"fence", module, "fence imports ."},
		{"fence", module + "/internal/backoff", ""},
		{"fence", "github.com/jackc/pgx/v5", "module of others"},
		{"fence/pgxfence", "github.com/jackc/pgx/v5", ""},
		{"fence/pgxfence", module, "fence/pgxfence imports ."},
		{"fence/redisfence", "github.com/redis/go-redis/v9", "module of others"},
		{"fence/redisfence/goredisfence", "github.com/redis/go-redis/v9", ""},
		{"internal/guard", module + "/fence", "imports fence"},
		{"store/redis", module, "store/redis imports ."},
		{"store/redis", module + "/store/mem", "imports store/mem"},
		{"store/redis/goredisstore", module + "/store/redis", ""},
		{"store/redis/goredisstore", module + "/store/mem", "imports store/mem"},
		{"store/quorum", module + "/store/redis", "imports store/redis"},
		{"store/quorum", "github.com/redis/go-redis/v9", "module of others"},
		{"store/remote", module + "/server", ""},
		{"store/etcd", module + "/server", "imports server"},
		{"store/etcd", module + "/internal/testenv", "imports internal/testenv"},
		{"cmd/distlock", module + "/internal/lab/chaos", "imports internal/lab/chaos"},
		{"cmd/distlock", module + "/store/redis", "imports store/redis"},
		{"cmd/distlock", module + "/internal/lab/torture", ""},
		{"internal/lab/torture", module + "/internal/lab/chaos", ""},
		{"internal/lab/torture", module + "/internal/testenv", "imports internal/testenv"},
		{"internal/lab/torture", "testing", "not tied to tests"},
		{"cmd/distlock", module + "/open", ""},
		{"cmd/distlock", "github.com/rogpeppe/go-internal/testscript", "not tied to tests"},
		{"open", module + "/store/sqlite", ""},
		{"open", module + "/store/redis/rueidisstore", ""},
		{"open", module, ""},
		{"locktest", module + "/internal/lab/chaos", ""},
		{"locktest", "go.uber.org/goleak", "not tied to tests"},
		{"locktest", "github.com/google/go-cmp/cmp", "module of others"},
		{"store/etcd", "go.uber.org/goleak", "not tied to tests"},
		{"drivertest", "pgregory.net/rapid", ""},
		{"drivertest", "testing", ""},
		{"drivertest", module + "/store/mem", ""},
		{"drivertest", module, "drivertest imports ."},
		{"server", "net/http/httptest", "not tied to tests"},
		{"util", "fmt", "no row in layers"},
	}
	for _, tt := range tests {
		got := judge(tt.pkg, tt.imp)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s imports %s: %q, want %q", tt.pkg, tt.imp, got, tt.want)
		}
	}
}

// A sourceFile is one Go file of the module, for whatever system it is meant.
type sourceFile struct {
	name string // path from the root
	pkg  string // its package's folder; "." is the root
	test bool
	ast  *ast.File
}

// source parses all Go files of the module. It reads files rather than asking the go
// command, so that it sees those of every system and works while a package does not build.
func source(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	for _, name := range tree(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		dir := path.Dir(name)
		if beside(dir) || strings.Contains(name, "testdata/") {
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

// beside reports whether a folder belongs to a module beside the product's.
func beside(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(path.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// tree returns the project's files, without what the Makefile builds.
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
		if d.Type().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
