// Command mutants breaks the code one line at a time, and fails if a breakage is not caught by the
// test that is named for it. It changes no file: the broken ones are laid over the tree by
// go test -overlay.
//
//	scripts/mutants            all of them
//	scripts/mutants REGEXP     those whose name matches, or one of their classes: fence, M04
//	scripts/mutants -times 20  each of them twenty times: a test that catches a mutant by luck is found
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// limit bounds one mutant. A test that hangs has noticed it too, but a person has to wait.
const limit = 60 * time.Second

// A mutant is one breakage: in File, the only occurrence of Old becomes New.
type mutant struct {
	Name string // a few words with dashes
	M    string // the classes that it is of, with spaces between; empty: of none
	Why  string // the mistake that it stands for
	File string
	Old  string
	New  string
	Pkg  string // where the test is; empty: the root package
	Test string // the test that must fail, or Test/subtest
	Args []string
}

// classes are the classes that m is of.
func (m mutant) classes() []string { return strings.Fields(m.M) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the mutants that are asked for and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	times := flags.Int("times", 1, "how often every mutant is tried: it must be caught each time")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	pattern := "."
	if flags.NArg() > 0 {
		pattern = strings.Join(flags.Args(), "|")
	}
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 64
	}
	chosen := slices.DeleteFunc(table(), func(m mutant) bool {
		return !wanted.MatchString(m.Name) && !slices.ContainsFunc(m.classes(), wanted.MatchString)
	})
	if len(chosen) == 0 {
		fmt.Fprintf(stderr, "mutants: no mutant matches %q\n", pattern)
		return 64
	}
	dir, err := os.MkdirTemp("", "distlock-mutants-")
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()

	start := time.Now()
	if err := control(ctx, chosen, stdout); err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	count := map[verdict]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU()+1) // some wait for a server
	for _, m := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			v, detail := m.try(ctx, dir, *times)
			mu.Lock()
			defer mu.Unlock()
			count[v]++
			fmt.Fprintf(stdout, "%-9s %-34s by %-46s %5.1fs\n", v, m.Name, m.Test, time.Since(began).Seconds())
			if v != caught {
				fmt.Fprintf(stdout, "          %s: %s\n", m.Why, detail)
			}
		})
	}
	wg.Wait()
	fmt.Fprintf(stdout, "%d mutants, %d survived, %d broken, in %v\n", len(chosen), count[survived], count[broken], time.Since(start).Round(time.Second))
	if count[caught] < len(chosen) || ctx.Err() != nil {
		return 1
	}
	return 0
}

// control runs the named tests on the unbroken code: a test that fails anyway catches nothing.
func control(ctx context.Context, chosen []mutant, stdout io.Writer) error {
	type group struct{ pkg, args string }
	tests := map[group][]string{}
	for _, m := range chosen {
		g := group{m.Pkg, strings.Join(m.Args, " ")}
		if !slices.Contains(tests[g], m.Test) {
			tests[g] = append(tests[g], m.Test)
		}
	}
	for g, names := range tests {
		var tops []string // a pattern cannot name subtests of several tests
		for _, name := range names {
			top, _, _ := strings.Cut(name, "/")
			tops = append(tops, top)
		}
		out, err := goTest(ctx, "", 5*limit, mutant{Pkg: g.pkg, Test: "(" + strings.Join(tops, "|") + ")", Args: strings.Fields(g.args)})
		if err != nil {
			return fmt.Errorf("the unbroken code fails:\n%s", out)
		}
		for _, name := range names {
			if !strings.Contains(out, "--- PASS: "+name+" ") {
				return fmt.Errorf("there is no test %s in %q", name, g.pkg)
			}
		}
	}
	fmt.Fprintf(stdout, "control: the named tests pass on the unbroken code\n")
	return nil
}

// A verdict is what became of a mutant.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	broken   verdict = "BROKEN" // it was not tried: the table is wrong, or the code with the mutant does not compile
)

// try runs the test on the mutant: first with no more than the test needs, and if that is no verdict, with all tests of the package.
func (m mutant) try(ctx context.Context, dir string, times int) (verdict, string) {
	for _, whole := range []bool{false, true} {
		overlay, err := m.lay(dir, whole)
		if err != nil {
			return broken, err.Error()
		}
		if v, detail := m.ask(ctx, overlay, times); v != broken || whole {
			return v, detail
		}
	}
	panic("unreachable")
}

// ask runs the test so many times, or until it does not catch the mutant.
func (m mutant) ask(ctx context.Context, overlay string, times int) (verdict, string) {
	for i := range times {
		out, err := goTest(ctx, overlay, limit, m)
		if v, detail := judge(m.Test, out, err); v != caught {
			return v, fmt.Sprintf("try %d: %s", i+1, detail)
		}
	}
	return caught, ""
}

// lay writes the broken file into dir and returns what lays it over the tree. The tests are trimmed, or whole.
func (m mutant) lay(dir string, whole bool) (string, error) {
	code, err := m.apply()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(m.File)
	if err != nil {
		return "", err
	}
	bad := filepath.Join(dir, m.Name+filepath.Ext(m.File))
	replace := map[string]string{file: bad}
	var tests map[string]string
	if !whole {
		if tests, err = trim("./"+m.Pkg, m.Test); err != nil {
			return "", err
		}
	}
	for path, text := range tests {
		if replace[path] = ""; text == "" {
			continue // as if it were not there
		}
		replace[path] = filepath.Join(dir, m.Name+"."+filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, m.Name+".json")
	return overlay, errors.Join(os.WriteFile(bad, code, 0o600), os.WriteFile(overlay, text, 0o600))
}

// apply returns the file with the mutant in it.
func (m mutant) apply() ([]byte, error) {
	code, err := os.ReadFile(m.File)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(code), m.Old); n != 1 {
		return nil, fmt.Errorf("what it breaks occurs %d times in %s: mend the table", n, m.File)
	}
	return []byte(strings.Replace(string(code), m.Old, m.New, 1)), nil
}

// judge tells what the output of go test means. The named test itself must have failed, or have been running when time
// was up: that the go command fails may have other reasons.
func judge(test, out string, err error) (verdict, string) {
	switch {
	case err == nil:
		return survived, "the test passes"
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return broken, "the code with the mutant does not compile:\n" + out
	}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == "---" && fields[1] == "FAIL:" && fields[2] == test {
			return caught, ""
		}
	}
	if _, running, late := strings.Cut(out, "panic: test timed out after "); late {
		for line := range strings.Lines(running) {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), " ("); ok && (name == test || strings.HasPrefix(name, test+"/")) {
				return caught, ""
			}
		}
	}
	return broken, "go test failed, and the named test did not:\n" + out
}

// goTest runs the named tests of a mutant for so long at most, and returns what they printed.
func goTest(ctx context.Context, overlay string, most time.Duration, m mutant) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, most+2*limit) // compiling comes on top of the test's own limit
	defer cancel()
	pattern := "^" + strings.ReplaceAll(m.Test, "/", "$/^") + "$"
	args := []string{"test", "-count=1", "-v", "-vet=off", "-ldflags=-s -w", "-timeout", most.String(), "-run", pattern}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(append(args, "./"+m.Pkg), m.Args...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	return string(out), err
}
