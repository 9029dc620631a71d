// Command mutants breaks the code in one line at a time, and fails if the named test does not catch
// the breakage. It changes no file in the tree: go test -overlay replaces the broken ones.
//
//	scripts/mutants              all of them
//	scripts/mutants REGEXP       those whose name or class matches: fence, M04
//	scripts/mutants -times 20    each of them twenty times: does a test catch it by luck?
//	scripts/mutants -since REV   those of packages, tests and rows that differ from a revision
//	scripts/mutants -since auto  the same, from the last landed commit: see base
//	scripts/mutants -share 1/8   a sample; with -since: in addition
//	scripts/mutants -most 100    if there are more, a sample of at most so many
//	scripts/mutants -budget 2m   start none after two minutes
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// limit bounds the run of one mutant. A test that hangs also catches the mutant, but takes time.
const limit = 60 * time.Second

// A mutant is one breakage: in File, the only occurrence of Old becomes New.
type mutant struct {
	Name string // a few words with dashes
	M    string // its classes, separated by spaces; may be empty
	Why  string // the mistake that it represents
	File string
	Old  string
	New  string
	Pkg  string // the package of the test; empty: the root package
	Test string // the test that must fail, or Test/subtest
	Args []string
}

// classes returns the classes of m.
func (m mutant) classes() []string { return strings.Fields(m.M) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the requested mutants and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 64
	}
	chosen, err := c.choose(ctx, table(), stdout)
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 64
	}
	if len(chosen) == 0 {
		return 0 // choose has printed the reason
	}
	dir, err := os.MkdirTemp("", "distlock-mutants-")
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := runner{choice: c, dir: dir, stdout: stdout, count: map[verdict]int{}}
	if err := r.run(ctx, chosen); err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	return 0
}

// A verdict is the result of a mutant.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	late     verdict = "LATE"   // not run: the time was up
	broken   verdict = "BROKEN" // not run: the row is wrong, or the mutant does not compile
)

// lay writes the broken file into dir and returns the path of the overlay file.
func (m mutant) lay(dir string) (string, error) {
	code, err := m.apply()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(m.File)
	if err != nil {
		return "", err
	}
	bad := filepath.Join(dir, m.Name+filepath.Ext(m.File))
	if err := os.WriteFile(bad, code, 0o600); err != nil {
		return "", err
	}
	return writeOverlay(filepath.Join(dir, m.Name+".json"), map[string]string{file: bad})
}

// apply returns the file with the mutant in it.
func (m mutant) apply() ([]byte, error) {
	code, err := os.ReadFile(m.File)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(code), m.Old); n != 1 {
		return nil, fmt.Errorf("its Old occurs %d times in %s: correct the row", n, m.File)
	}
	return []byte(strings.Replace(string(code), m.Old, m.New, 1)), nil
}

// verdictOf returns the verdict for an output of go test. The named test itself must have failed,
// or must have been running when the time was up. The go command may also fail for other reasons.
func verdictOf(test, out string, err error) (verdict, string) {
	switch {
	case err == nil:
		return survived, "the test passes"
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return broken, "the code with the mutant does not compile:\n" + out
	}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == "---" &&
			fields[1] == "FAIL:" && fields[2] == test {
			return caught, ""
		}
	}
	if _, running, late := strings.Cut(out, "panic: test timed out after "); late {
		for line := range strings.Lines(running) {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), " ("); ok &&
				(name == test || strings.HasPrefix(name, test+"/")) {
				return caught, ""
			}
		}
	}
	return broken, "go test failed, but the named test did not:\n" + out
}

// goTest runs the named tests of a mutant for at most the given time, and returns their output.
func goTest(ctx context.Context, overlay string, most time.Duration, m mutant) (string, error) {
	// Compiling comes on top of the test's own limit.
	ctx, cancel := context.WithTimeout(ctx, most+2*limit)
	defer cancel()
	args := []string{"test", "-count=1", "-v", "-vet=off", "-ldflags=-s -w", "-timeout", most.String(),
		"-run", pattern(m.Test)}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(append(args, "./"+m.Pkg), m.Args...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	return string(out), err
}
