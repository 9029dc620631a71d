package main

import (
	"strings"
	"testing"
	"time"
)

// module writes a small module with a mutant of every form into the current folder.
func module(t *testing.T) []mutant {
	write(t, "go.mod", "module example.com/distlock\n\ngo 1.26\n")
	write(t, "a.go", `package distlock

import "embed"

//go:embed one.txt
var one string

//go:embed more/*.txt
var more embed.FS

const two = 2

func sum(a, b int) int {
	if a == 0 {
		return b
	}
	return a + b
}

func both() (n int) { n = sum(1, two); return n }

func count() (n int) {
outer:
	for {
		for n++; n < 3; n++ {
		}
		break outer
	}
	return n
}

func text() string { b, _ := more.ReadFile("more/x.txt"); return one + string(b) }
`)
	write(t, "one.txt", "one")
	write(t, "more/x.txt", "more")
	write(t, "a_test.go", `package distlock

import "testing"

func TestSum(t *testing.T) {
	t.Run("both", func(t *testing.T) { want(t, sum(1, 2) == 3) })
	t.Run("zero", func(t *testing.T) { want(t, sum(0, 2) == 2) })
}

func TestTwo(t *testing.T)   { want(t, both() == 3) }
func TestCount(t *testing.T) { want(t, count() == 3) }
func TestText(t *testing.T)  { want(t, text() == "onemore") }

func want(t *testing.T, ok bool) {
	if !ok {
		t.Fatal("wrong")
	}
}
`)
	return []mutant{
		{Name: "in-a-body", File: "a.go", Old: "return a + b", New: "return a - b", Test: "TestSum/both"},
		{Name: "same-body", File: "a.go", Old: "return b\n", New: "return 7\n", Test: "TestSum/zero"},
		{Name: "whole-body", File: "a.go", Old: "{ n = sum(1, two); return n }", New: "{ return 0 }", Test: "TestTwo"},
		{Name: "embedded-text", File: "one.txt", Old: "one", New: "two", Test: "TestText"},
		{Name: "embedded-files", File: "more/x.txt", Old: "more", New: "less", Test: "TestText"},
		{Name: "constant", File: "a.go", Old: "two = 2", New: "two = 3", Test: "TestTwo"},
		{Name: "label", File: "a.go", Old: "n < 3", New: "n < 4", Test: "TestCount"},
		{Name: "survivor", File: "a.go", Old: "a == 0", New: "a <= 0", Test: "TestSum/zero"},
		{Name: "unknown-name", File: "a.go", Old: "return a + b", New: "return a + c", Test: "TestSum/both"},
		{Name: "not-there", File: "a.go", Old: "nothing", New: "something", Test: "TestSum/both"},
		{Name: "there-twice", File: "a.go", Old: "return n", New: "return 0", Test: "TestTwo"},
	}
}

// Mutants that share a program get the same verdicts as alone. A mutant that does not compile does
// not affect the others.
func TestRunner(t *testing.T) {
	t.Chdir(t.TempDir())
	all := module(t)
	out, err := runAll(t, all, 0)
	if !strings.Contains(out, "compiled alone: unknown-name\n") ||
		strings.Contains(out, "do not compile with many") {
		t.Errorf("not exactly one mutant is compiled alone:\n%s", out)
	}
	if err == nil || !strings.Contains(out, "11 mutants, 1 survived, 3 broken") {
		t.Errorf("%v\n%s", err, out)
	}
	for name, want := range map[string]verdict{
		"in-a-body": caught, "same-body": caught, "whole-body": caught, "embedded-text": caught,
		"embedded-files": caught,
		"constant":       caught, "label": caught, "survivor": survived, "unknown-name": broken,
		"not-there":   broken,
		"there-twice": broken,
	} {
		if !hasVerdict(out, want, name) ||
			(want != caught) != strings.Contains(out, "again: scripts/mutants '^"+name+"$'") {
			t.Errorf("%s: want %s\n%s", name, want, out)
		}
	}

	c, err := combine(all)
	if err != nil || len(c.names) != 7 || c.names["constant"] || c.names["label"] ||
		c.names["there-twice"] || c.names["not-there"] {
		t.Errorf("in one program: %v (%v)", c.names, err)
	}
}

// A missing return cannot be assigned to a branch. All mutants are then compiled alone.
func TestRunner_missingReturn(t *testing.T) {
	t.Chdir(t.TempDir())
	all := append(module(t)[:1], mutant{Name: "no-return", File: "a.go", Old: "	return a + b", New: "	_ = a + b", Test: "TestSum/both"})
	out, err := runAll(t, all, 0)
	if err == nil || !strings.Contains(out, "do not compile with many") ||
		!hasVerdict(out, caught, "in-a-body") || !hasVerdict(out, broken, "no-return") {
		t.Errorf("%v\n%s", err, out)
	}
}

func hasVerdict(out string, v verdict, name string) bool {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == string(v) && f[1] == name {
			return true
		}
	}
	return false
}

// Mutants that did not start in time are reported, and are no failure. A test that also fails on
// the unbroken code, or does not exist, is a failure.
func TestRunner_budget(t *testing.T) {
	t.Chdir(t.TempDir())
	all := module(t)[:1]
	out, err := runAll(t, all, 1)
	if err != nil || !strings.Contains(out, "0 mutants, 0 survived") ||
		!strings.Contains(out, "1 NOT RUN, no time left; make nightly runs all") {
		t.Errorf("%v\n%s", err, out)
	}
	all[0].Test = "TestSum/neither"
	if out, err = runAll(t, all, 0); err == nil ||
		!strings.Contains(err.Error(), "there is no test TestSum/neither") {
		t.Errorf("%v\n%s", err, out)
	}
	write(t, "one.txt", "another")
	all[0].Test = "TestText"
	if out, err = runAll(t, all, 0); err == nil ||
		!strings.Contains(err.Error(), "the unbroken code fails") {
		t.Errorf("%v\n%s", err, out)
	}
}

// runAll runs mutants of the current folder.
func runAll(t *testing.T, all []mutant, budget time.Duration) (string, error) {
	var out strings.Builder
	r := runner{choice: choice{times: 1, budget: budget}, dir: t.TempDir(), stdout: &out,
		count: map[verdict]int{}}
	err := r.run(t.Context(), all)
	return out.String(), err
}

// One run covers the subtests of a test, and no others.
func TestControls(t *testing.T) {
	all := []mutant{
		{Test: "TestA/x"}, {Test: "TestA/y"}, {Test: "TestA/x"}, {Test: "TestA"}, {Test: "TestB/x"},
		{Test: "TestA/y", Pkg: "p"}, {Test: "TestA/y", Args: []string{"-n=1"}},
	}
	var got []string
	for _, c := range controls(all) {
		got = append(got, strings.Join(append([]string{c.Pkg, pattern(c.Test)}, c.Args...), " "))
	}
	want := " ^(TestA)$/^(x|y)$; ^(TestA)$; ^(TestB)$/^(x)$;p ^(TestA)$/^(y)$; ^(TestA)$/^(y)$ -n=1"
	if strings.Join(got, ";") != want {
		t.Errorf("%q", got)
	}
}
