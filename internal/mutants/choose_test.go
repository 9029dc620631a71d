package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// names returns the names of mutants, separated by spaces.
func names(all []mutant) string {
	var s []string
	for _, m := range all {
		s = append(s, m.Name)
	}
	return strings.Join(s, " ")
}

// Changed files choose mutants, without a repository.
func TestChange_touches(t *testing.T) {
	all := []mutant{
		{Name: "core", File: "lock.go"},
		{Name: "core-by-chaos", File: "internal/keeper/hold.go"},
		{Name: "redis", File: "store/redis/store.go", Pkg: "store/redis"},
		{Name: "script", File: "store/redis/lua/renew.lua", Pkg: "store/redis"},
		{Name: "adapter", File: "store/redis/goredisstore/goredisstore.go", Pkg: "store/redis"},
		{Name: "cron", File: "robfig/lock.go", Pkg: "./robfig"},
	}
	code := []string{"internal/keeper", "internal/testenv", "store/redis", "store/redis/goredisstore",
		"robfig"}
	imports := map[string][]string{"store/redis": {"internal/testenv", "."},
		".": {"internal/lab/history"}}
	known := tree{func(dir string) bool { return slices.Contains(code, dir) },
		func(pkg string) []string { return imports[pkg] }}
	for files, want := range map[string]string{
		"":                                         "",
		"README.md docs/testing.md Makefile":       "",
		"go.mod .golangci.yml":                     "",
		"lock.go":                                  "core core-by-chaos redis script adapter", // store/redis imports the root in its tests
		"lock_test.go":                             "core core-by-chaos redis script adapter",
		"testdata/history.json":                    "core core-by-chaos redis script adapter",
		"docs/pictures/plot.svg":                   "",
		"internal/keeper/hold.go":                  "core-by-chaos",
		"store/redis/store_test.go":                "redis script adapter",
		"store/redis/lua/acquire.lua":              "redis script adapter",
		"store/redis/README.md":                    "",
		"store/redis/goredisstore/goredisstore.go": "adapter",
		"internal/testenv/redis.go":                "redis script adapter",
		"robfig/testdata/x":                        "cron",
		"robfig/lock.go store/redis/key.go":        "redis script adapter cron",
		"internal/mutants/main.go":                 "",
		"removed/old.go":                           "",
		"internal/testenv/testdata/a/b/c.pem":      "redis script adapter",
	} {
		c := change{packages: packagesOf(strings.Fields(files), known.hasGo), tree: known}
		got := names(slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !c.touches(m) }))
		if got != want {
			t.Errorf("%s: %q, want %q", files, got, want)
		}
	}
	row := change{rows: map[string]bool{"cron": true}, tree: known}
	if !row.touches(all[5]) || row.touches(all[0]) {
		t.Error("a row that differs chooses its own mutant, and no other")
	}
}

// A row differs if its text or the code around the rows differs.
func TestRowsThatDiffer(t *testing.T) {
	const head, a, b = "package main\nfunc rows() []mutant {\n", "\t\t{Name: \"a\", Old: \"x\"},\n", "\t\t{Name: \"b\", Old: dir},\n"
	before := head + "const dir = 1\nreturn []mutant{\n" + a + b + "}\n}\n"
	for after, want := range map[string]string{
		before:                               "map[]",
		strings.Replace(before, a, "", 1):    "map[]",
		strings.Replace(before, a+b, b+a, 1): "map[]",
		strings.Replace(before, b, b+"{Name: \"c\"},\n", 1):                 "map[c:true]",
		strings.Replace(before, "\"x\"", "\"y\"", 1):                        "map[a:true]",
		strings.Replace(before, "dir = 1", "dir = 2", 1):                    "map[a:true b:true]",
		before + "func other() []mutant { return []mutant{{Name: \"d\"}} }": "map[d:true]",
	} {
		if got := fmt.Sprint(rowsThatDiffer(rowsOf(before), rowsOf(after))); got != want {
			t.Errorf("%s\n%s, want %s", after, got, want)
		}
	}
}

// Every row is found in the source of the table. A change of a row that is not found would choose
// nothing.
func TestRowsOf_table(t *testing.T) {
	found := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range rowsOf(string(code)) {
			found[name] = true
		}
	}
	for _, m := range table() {
		if !found[m.Name] {
			t.Errorf("%s: its name is not a literal", m.Name)
		}
	}
}

// The samples of seeds 0 to n-1 cover all mutants, each once.
func TestSample(t *testing.T) {
	all := table()
	for _, n := range []int{1, 3, 8} {
		seen := map[string]int{}
		for seed := range n {
			picked := sample(all, 1, n, uint64(seed))
			if len(picked) < len(all)/n {
				t.Errorf("1/%d, seed %d: %d of %d mutants", n, seed, len(picked), len(all))
			}
			for _, m := range picked {
				seen[m.Name]++
			}
		}
		for _, m := range all {
			if seen[m.Name] != 1 {
				t.Errorf("1/%d: %s is in %d samples", n, m.Name, seen[m.Name])
			}
		}
	}
}

// Too many mutants become a sample, and the seeds together cover all.
func TestChoice_limit(t *testing.T) {
	var all []mutant
	for i := range 25 {
		all = append(all, mutant{Name: fmt.Sprint(i)})
	}
	seen := map[string]bool{}
	for seed := range uint64(3) {
		picked := choice{most: 10}.limit(all, seed, io.Discard)
		if len(picked) > 10 || len(picked) < 8 {
			t.Errorf("%d of 25 with at most 10", len(picked))
		}
		for _, m := range picked {
			seen[m.Name] = true
		}
	}
	if len(seen) != 25 {
		t.Errorf("three seeds cover %d of 25", len(seen))
	}
	for _, most := range []int{0, 25} {
		if got := (choice{most: most}).limit(all, 1, io.Discard); len(got) != 25 {
			t.Errorf("%d of 25 with at most %d", len(got), most)
		}
	}
}

func TestParse_share(t *testing.T) {
	for share, ok := range map[string]bool{"1/8": true, "3/4": true, "1/1": true, "0/8": false,
		"9/8": false, "1": false, "1/8x": false, "1/": false, "-1/8": false} {
		if _, err := parse([]string{"-share", share}, io.Discard); (err == nil) != ok {
			t.Errorf("%s: %v", share, err)
		}
	}
}

// repository makes a repository with the given number of commits in the current folder, each with
// another lock.go.
func repository(t *testing.T, commits int) {
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("DISTLOCK_BASE", "")
	sh(t, "git init -q -b main . && git config user.name n && git config user.email e")
	write(t, "go.mod", "module example.com/distlock\n")
	write(t, "store/redis/store.go", "package redis")
	write(t, "robfig/lock.go", "package robfig")
	for i := range commits {
		write(t, "lock.go", fmt.Sprintf("package distlock // %d", i))
		sh(t, "git add . && git commit -q -m c"+fmt.Sprint(i))
	}
}

func sh(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The base is DISTLOCK_BASE, or the commit where a branch left origin/main, or some commits back.
func TestBase(t *testing.T) {
	t.Chdir(t.TempDir())
	repository(t, recent-1)
	check := func(why, rev string) {
		t.Helper()
		want := sh(t, "git rev-parse "+rev)
		got, err := base(t.Context())
		if err != nil || sh(t, "git rev-parse "+got) != want {
			t.Errorf("%s: %s (%v), want %s", why, got, err, want)
		}
	}
	check("few commits: the first", "HEAD~18")
	for range 3 {
		sh(t, "git commit -q --allow-empty -m more")
	}
	check("many commits", "HEAD~20")
	sh(t, "git update-ref refs/remotes/origin/main HEAD")
	check("a fresh clone of main", "HEAD~20")
	sh(t, "git checkout -q -b topic HEAD~2 && git commit -q --allow-empty -m topic")
	check("a branch", "HEAD~1")
	t.Setenv("DISTLOCK_BASE", "HEAD~5")
	check("a base that is named", "HEAD~5")
}

// In a clone of one commit the changes are unknown, and a sample is chosen.
func TestChoose_shallow(t *testing.T) {
	t.Chdir(t.TempDir())
	repository(t, 1)
	c, err := parse([]string{"-since", "auto", "-seed", "0"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	got, err := c.choose(t.Context(), []mutant{{Name: "a", File: "lock.go"}, {Name: "b", File: "lock.go"}}, &out)
	if err != nil || names(got) != "a" || !strings.Contains(out.String(), "no commit before HEAD") {
		t.Errorf("%s (%v)\n%s", names(got), err, &out)
	}
}

// Differences from a revision are chosen first, committed or not, then the sample.
func TestChoose(t *testing.T) {
	t.Chdir(t.TempDir())
	repository(t, 2)
	all := []mutant{
		{Name: "core", File: "lock.go"},
		{Name: "redis", File: "store/redis/store.go", Pkg: "store/redis"},
		{Name: "script", File: "store/redis/lua/renew.lua", Pkg: "store/redis"},
		{Name: "cron", File: "robfig/lock.go", Pkg: "./robfig"},
	}
	check := func(args, want, says string) {
		t.Helper()
		c, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		got, err := c.choose(t.Context(), slices.Clone(all), &out)
		if err != nil || names(got) != want || !strings.Contains(out.String(), says) {
			t.Errorf("%s: %q (%v), want %q; it says:\n%s", args, names(got), err, want, &out)
		}
	}
	check("", "core redis script cron", "")
	check("-since HEAD", "", "0 of packages that differ from HEAD")
	check("-since HEAD~1", "core", "1 of packages that differ from HEAD~1")
	check("-since auto", "core", "")
	check("-since HEAD~1 -share 1/2 -seed 0", "core script", "scripts/mutants -share 1/2 -seed 0")
	check("-since HEAD~1 -share 1/2 -seed 1", "core redis cron", "scripts/mutants -share 1/2 -seed 1")
	check("-since HEAD~1 -share 1/2 -seed 1 cron", "", "")
	check("-since nowhere -seed 0", "core", "unknown differences from nowhere") // one of eight
	check("-since HEAD~9 -share 1/2 -seed 1", "redis cron", "a sample of 1/2 instead")
	write(t, "store/redis/lua/renew.lua", "untracked")
	check("-since HEAD", "redis script", "")
	write(t, "robfig/lock.go", "package robfig // not committed")
	check("-since HEAD", "redis script cron", "")
	check("-since HEAD -share 1/1", "redis script cron core", "")

	first, again := seedOf(t.Context()), seedOf(t.Context())
	sh(t, "git commit -q --allow-empty -m next")
	if first != again || first == seedOf(t.Context()) {
		t.Error("the seed is that of the commit")
	}
}

// A row that differs from the row in the revision chooses its mutant.
func TestChangeSince_rows(t *testing.T) {
	t.Chdir(t.TempDir())
	repository(t, 1)
	const rows = "package main\nfunc rows() []mutant { return []mutant{{Name: \"a\"}, {Name: \"b\"}} }\n"
	write(t, "internal/mutants/rows.go", rows)
	sh(t, "git add . && git commit -q -m rows")
	write(t, "internal/mutants/rows.go", strings.Replace(rows, `"b"`, `"b", Old: "x"`, 1))
	write(t, "internal/mutants/more.go", "package main\nvar more = []mutant{{Name: \"c\"}}\n")
	c, err := changeSince(t.Context(), "HEAD")
	if got := fmt.Sprint(c.rows); err != nil || got != "map[b:true c:true]" {
		t.Errorf("%s (%v)", got, err)
	}
}
