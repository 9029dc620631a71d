package docscheck_test

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of the product's module. Package names below are relative to it; the root
// package is ".".
const module = "github.com/distlock/distlock"

// A layer says which packages the production code of a package may import besides the standard
// library.
type layer struct {
	pkg string   // a package, or a pattern of path.Match
	may []string // packages of this module, or patterns
	out bool     // whether external modules may be imported
	lab bool     // whether the package is for tests: it may import testing and the test-only packages
	why string
}

// layers lists the allowed imports. The first row that matches a package applies. A package without
// a row fails the test: add one, with its reason.
var layers = []layer{
	{pkg: ".", may: []string{"driver", "internal/keeper", "internal/backoff", "internal/deadlock", "internal/handle", "internal/names", "internal/proof", "internal/queue"},
		why: "a program with one store must not compile the clients of all the others"},
	{pkg: "driver",
		why: "the contract: every package may import it, and it imports none"},
	{pkg: "internal/backoff",
		why: "arithmetic of pauses"},
	{pkg: "internal/typo",
		why: "letters and nothing else"},
	{pkg: "internal/keeper", may: []string{"driver", "internal/backoff"},
		why: "it renews by the contract and knows no kind of lock"},
	{pkg: "internal/names",
		why: "the rules of names, and their keys"},
	{pkg: "internal/handle", may: []string{"driver", "internal/names"},
		why: "one text for leases and the lock server"},
	{pkg: "internal/proof", may: []string{"internal/names"},
		why: "one text for leases and guards"},
	{pkg: "internal/queue", may: []string{"driver", "internal/backoff", "internal/keeper"},
		why: "it acquires and hands off claims by the contract, and knows no kind of lock"},
	{pkg: "internal/deadlock", may: []string{"driver"},
		why: "it builds the wait-for graph by the contract, and knows no kind of lock"},
	{pkg: "fence", may: []string{"internal/guard", "internal/backoff", "internal/names", "internal/proof"},
		why: "a guard runs next to the protected resource, where there may be no lock at all"},
	{pkg: "fence/redisfence", may: []string{"fence"},
		why: "the guard for Redis is a script: which client sends it is the user's choice"},
	{pkg: "fence/redisfence/*", may: []string{"fence/redisfence"}, out: true,
		why: "an adapter joins a client library to the guard"},
	{pkg: "fence/etcdfence", may: []string{"fence", "internal/etcdkey"}, out: true,
		why: "the condition is about the keys of the store, which it names as the store does"},
	{pkg: "internal/gate",
		why: "it counts calls, and knows nothing of stores"},
	{pkg: "internal/etcdkey",
		why: "names of keys"},
	{pkg: "fence/*", may: []string{"fence", "internal/guard"}, out: true,
		why: "a guard for one database links that database's client"},
	{pkg: "internal/guard",
		why: "statements of SQL: the caller that runs them has the database"},

	{pkg: "store/mem", may: []string{"driver"},
		why: "the reference; tests and users link it without anything else"},
	{pkg: "store/quorum", may: []string{"driver", "internal/backoff"},
		why: "a majority of any stores: it must not know which"},
	{pkg: "store/sqlite", may: []string{"driver", "internal/keeper"}, out: true,
		why: "its processes are on the holders' own host: its clock must count the time asleep as theirs do"},
	{pkg: "internal/sqlrow", may: []string{"driver"}, why: "answers and texts of the stores on SQL tables"},
	{pkg: "internal/protocol",
		why: "a few bytes to a port, for an error message"},
	{pkg: "internal/pgurl", may: []string{"internal/protocol"}, out: true,
		why: "the common part of the URLs of the stores on PostgreSQL"},
	{pkg: "internal/pgwire", out: true,
		why: "the connection of the stores on PostgreSQL: it knows no store"},
	{pkg: "store/postgres", may: []string{"driver", "internal/backoff", "internal/pgurl", "internal/pgwire", "internal/protocol", "internal/sqlrow"}, out: true,
		why: "a store, as below"},
	{pkg: "store/pgadvisory", may: []string{"driver", "internal/keeper", "internal/pgurl", "internal/pgwire", "internal/protocol", "internal/sqlrow"}, out: true,
		why: "the server counts how long a connection is idle, also while the holder's host is asleep: so must the store"},
	{pkg: "store/mysql", may: []string{"driver", "internal/backoff", "internal/gate", "internal/protocol", "internal/sqlrow"}, out: true,
		why: "a store, as below"},
	{pkg: "store/etcd", may: []string{"driver", "internal/etcdkey", "internal/gate", "internal/keeper", "internal/typo"}, out: true,
		why: "a store, as below, with its own URL; a lease ends also while this host is suspended"},
	{pkg: "api/distlock/v1", out: true,
		why: "it is generated from the messages of the server, and knows nothing of locks"},
	{pkg: "store/remote", may: []string{"driver", "api/distlock/v1", "internal/message"}, out: true,
		why: "the client of the lock server speaks its API, and links no server"},
	{pkg: "store/*/*", may: []string{"driver", "store/redis", "internal/protocol", "internal/typo"}, out: true,
		why: "an adapter joins a client library to its own store"},
	{pkg: "store/*", may: []string{"driver", "internal/backoff", "internal/gate"}, out: true,
		why: "a store carries every kind of lock because it knows none, and stands without the other stores"},

	{pkg: "open", may: []string{".", "driver", "store/*", "store/*/*", "internal/typo"}, out: true,
		why: "the one package that links all stores"},
	{pkg: "internal/message", may: []string{"driver", "api/distlock/v1", "internal/handle", "internal/names"}, out: true,
		why: "the contract as messages, for the server and for its client"},
	{pkg: "server/oidc", may: []string{"driver", "server/access"}, out: true,
		why: "one way to prove an identity, with a module that the server itself does not link"},
	{pkg: "server/access",
		why: "who may do what: the server, its dashboard and the ways to prove an identity share it"},
	{pkg: "server/tokens", may: []string{"internal/names", "server/access"}, out: true,
		why: "the file of tokens: the server gets it as a function, so that other ways to prove an identity need no TOML"},
	{pkg: "server", may: []string{
		"driver", "api/distlock/v1", "server/access", "internal/message", "internal/names", "internal/deadlock",
		"internal/handle", "internal/keeper", "internal/backoff", "internal/typo",
	}, out: true,
		why: "it passes the contract on and adds no meaning; permissions are about the names in keys and in notices; handles, the margin of trust and pauses are those of the library"},
	{pkg: "dashboard", may: []string{"driver", "server/access", "internal/names", "internal/deadlock"},
		why: "pages over the contract, for any program that has a server: they must cost it no new module"},
	{pkg: "adapter/otellock", may: []string{".", "driver"}, out: true, why: "an adapter over the public API"},
	{pkg: "adapter/httpidempotency", may: []string{".", "driver"}, why: "HTTP over the public API; it must cost no new module"},
	{pkg: "adapter/httpratelimit", may: []string{"."}, why: "HTTP over the public API; it must cost no new module"},
	{pkg: "adapter/gocronlock", may: []string{".", "driver"}, out: true, why: "an adapter over the public API"},
	{pkg: "adapter/robfigcron", may: []string{"."}, out: true, why: "an adapter over the public API"},
	{pkg: "examples/internal/process", why: "it starts a program again, and knows nothing of locks"},
	{pkg: "examples/*", may: []string{".", "store/*", "fence", "open", "adapter/*", "examples/internal/process"}, out: true, why: "programs as a user would write them"},
	{pkg: "cmd/*", may: []string{".", "driver", "fence", "open", "server", "server/*", "dashboard", "adapter/otellock", "internal/*", "internal/lab/torture", "internal/lab/history"}, out: true,
		why: "a program puts the parts together; stores reach it through open"},

	{pkg: "drivertest", may: []string{"driver", "store/mem", "internal/lab/history", "internal/lab/chaos", "internal/proxy"}, out: true, lab: true,
		why: "the contract as tests: the authors of stores run it, and compare with the memory store"},
	{pkg: "locktest", may: []string{".", "driver", "store/mem", "internal/lab/chaos", "internal/names"}, lab: true,
		why: "for users' own tests: it must cost them no new module"},
	{pkg: "internal/lab/chaos", may: []string{"driver"}, out: true, lab: true, why: "faults, for tests only"},
	{pkg: "internal/lab/history", may: []string{"driver"}, out: true, lab: true,
		why: "a checker of histories, for tests only"},
	{pkg: "internal/lab/torture", may: []string{
		".", "driver", "internal/lab/chaos", "internal/lab/history", "internal/lab/workload",
	}, out: true,
		why: "a test that users run on their own store: it contains the faults and the checker, see docs/adr/0017-torture.md"},
	{pkg: "internal/lab/workload", may: []string{".", "driver", "internal/lab/history"}, lab: true,
		why: "clients that contend, for tests only"},
	{pkg: "internal/proxy", lab: true, why: "a link that breaks, for tests only"},
	{pkg: "internal/testenv", may: []string{"driver", "internal/lab/chaos", "internal/proxy"}, out: true, lab: true,
		why: "real servers, for tests only"},
	{pkg: "tests/internal/faults", may: []string{
		".", "driver", "open", "server", "server/access", "fence", "fence/redisfence", "fence/redisfence/*", "store/quorum", "store/mem",
		"internal/lab/chaos", "internal/lab/history", "internal/lab/torture", "internal/lab/workload",
		"internal/testenv",
	}, out: true, lab: true, why: "faults on real stores: it connects to all of them, for tests only"},
	{pkg: "internal/apicheck", lab: true, why: "compares the public API with the one that is written down"},
	{pkg: "internal/*", may: []string{"driver", "internal/*"}, why: "inner parts follow the root package: no external modules"},
}

// labs are the packages that production code does not import, unless its layer names one of them
// exactly.
var labs = []string{
	"internal/lab/chaos", "internal/lab/history", "internal/lab/workload", "internal/proxy", "internal/testenv",
	"tests/internal/faults", "internal/apicheck", "drivertest", "locktest",
}

// labModules are external packages for tests: see docs/adr/0007-test-dependencies.md and
// 0011-command-line.md.
var labModules = []string{
	"github.com/anishathalye/porcupine", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal/testscript",
	"github.com/bufbuild/protocompile",
}

// checkImport returns why the production code of pkg must not import imp, or "" if it may.
func checkImport(pkg, imp string) string {
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
		allowed := slices.ContainsFunc(l.may, func(p string) bool { return matches(p, rel) })
		if allowed && (l.lab || !slices.Contains(labs, rel) || slices.Contains(l.may, rel)) {
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
		return fmt.Sprintf("%s imports the external module %s: %s", pkg, imp, l.why)
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
	t.Parallel()
	atRoot(t)
	for _, f := range source(t) {
		if f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := checkImport(f.pkg, imp); wrong != "" {
				t.Errorf("%s: %s", f.name, wrong)
			}
		}
	}
}

func TestArch_imports_canFail(t *testing.T) {
	tests := []struct {
		pkg, imp string
		want     string // part of the message; empty: the import is allowed
	}{
		{".", "context", ""},
		{".", module + "/driver", ""},
		{".", module + "/store/mem", ". imports store/mem"},
		{".", "github.com/jackc/pgx/v5", "external module"},
		{".", "C", "without cgo"},
		{".", "testing", "not tied to tests"},
		{".", "testing/synctest", "not tied to tests"},
		{"driver", module, "driver imports ."},
		{"driver", "golang.org/x/sync/errgroup", "external module"},
		{"internal/keeper", module, "internal/keeper imports ."},
		{"internal/keeper", module + "/internal/backoff", ""},
		{"internal/backoff", module + "/driver", "imports driver"},
		{"fence", module, "fence imports ."},
		{"fence", module + "/internal/backoff", ""},
		{"fence", "github.com/jackc/pgx/v5", "external module"},
		{"fence/pgxfence", "github.com/jackc/pgx/v5", ""},
		{"fence/pgxfence", module, "fence/pgxfence imports ."},
		{"fence/redisfence", "github.com/redis/go-redis/v9", "external module"},
		{"fence/redisfence/goredisfence", "github.com/redis/go-redis/v9", ""},
		{"internal/guard", module + "/fence", "imports fence"},
		{"store/redis", module, "store/redis imports ."},
		{"store/redis", module + "/store/mem", "imports store/mem"},
		{"store/redis/goredisstore", module + "/store/redis", ""},
		{"store/redis/goredisstore", module + "/store/mem", "imports store/mem"},
		{"store/quorum", module + "/store/redis", "imports store/redis"},
		{"store/quorum", "github.com/redis/go-redis/v9", "external module"},
		{"store/remote", module + "/internal/message", ""},
		{"store/remote", module + "/server", "imports server"},
		{"driver", "connectrpc.com/connect", "external module"},
		{".", module + "/store/remote", ". imports store/remote"},
		{"internal/keeper", "google.golang.org/protobuf/proto", "external module"},
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
		{"locktest", "github.com/google/go-cmp/cmp", "external module"},
		{"store/etcd", "go.uber.org/goleak", "not tied to tests"},
		{"drivertest", "pgregory.net/rapid", ""},
		{"drivertest", "testing", ""},
		{"drivertest", module + "/store/mem", ""},
		{"drivertest", module, "drivertest imports ."},
		{"server", "net/http/httptest", "not tied to tests"},
		{"dashboard", module + "/server", "imports server"},
		{"dashboard", "connectrpc.com/connect", "external module"},
		{"util", "fmt", "no row in layers"},
	}
	for _, tt := range tests {
		got := checkImport(tt.pkg, tt.imp)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s imports %s: %q, want %q", tt.pkg, tt.imp, got, tt.want)
		}
	}
}
