package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestVerdictOf(t *testing.T) {
	failed := errors.New("exit status 1")
	for name, c := range map[string]struct {
		out  string
		err  error
		want verdict
	}{
		"passes":           {"--- PASS: TestA (0.00s)\nPASS\n", nil, survived},
		"fails":            {"=== RUN   TestA\n--- FAIL: TestA (0.01s)\nFAIL\n", failed, caught},
		"does not compile": {"# p\na.go:1:1: syntax error\nFAIL\tp [build failed]\n", failed, broken},
		"no such package":  {"FAIL\tp [setup failed]\n", failed, broken},
		"another fails":    {"--- PASS: TestA (0.00s)\n--- FAIL: TestAB (0.01s)\nFAIL\n", failed, broken},
		"a subtest fails": {"    --- FAIL: TestA/part (0.01s)\n--- FAIL: TestA (0.01s)\nFAIL\n",
			failed, caught},
		"killed":          {"signal: killed\n", failed, broken},
		"a leak after it": {"--- PASS: TestA (0.00s)\nPASS\ngoleak: Errors on successful test run\nFAIL\tp\n", failed, broken},
		"hangs": {"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (1m0s)\n",
			failed, caught},
		"a subtest hangs": {"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA/part (1m0s)\n", failed, caught},
		"another hangs": {"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestB (1m0s)\n",
			failed, broken},
		"only mentioned": {"--- FAIL: TestB (0.00s)\n    b_test.go:1: --- FAIL: TestA\n",
			failed, broken},
	} {
		if got, detail := verdictOf("TestA", c.out, c.err); got != c.want ||
			(got == caught) != (detail == "") {
			t.Errorf("%s: %s (%s), want %s", name, got, detail, c.want)
		}
	}
}

// A test that is skipped has no verdict on the mutant, and is run again.
func TestDecided(t *testing.T) {
	runs := 0
	v, _ := mutant{Test: "TestA"}.repeat(2, func() (string, error) {
		if runs++; runs%3 != 0 {
			return "    --- SKIP: TestA (0.00s)\nPASS\n", nil
		}
		return "--- FAIL: TestA (0.01s)\nFAIL\n", errors.New("exit status 1")
	})
	if v != caught || runs != 6 {
		t.Errorf("%s after %d runs", v, runs)
	}
	runs = 0
	v, _ = mutant{Test: "TestA"}.repeat(1, func() (string, error) { runs++; return "--- SKIP: TestA (0.00s)\n", nil })
	if v != survived || runs != 5 {
		t.Errorf("%s after %d runs", v, runs)
	}
}

// Every row matches the code. A row that does not is found here, long before it runs.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, m := range table() {
		if names[m.Name] || m.Name == "" || m.Why == "" || m.Test == "" || m.Old == m.New {
			t.Errorf("%s: the name is not unique, or a field is missing", m.Name)
		}
		names[m.Name] = true
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		dir := m.Pkg
		if dir == "" {
			dir = "."
		}
		top, _, _ := strings.Cut(m.Test, "/")
		if !hasTest(t, dir, top) {
			t.Errorf("%s: there is no %s in %s", m.Name, top, dir)
		}
	}
}

// Every class has a mutant, and every mutant names existing classes.
func TestClasses(t *testing.T) {
	known, seen := classes(), map[string]bool{}
	for _, m := range table() {
		for _, c := range m.classes() {
			if known[c] == "" {
				t.Errorf("%s: there is no class %s", m.Name, c)
			}
			seen[c] = true
		}
	}
	for c, what := range known {
		if !seen[c] {
			t.Errorf("%s has no mutant: %s", c, what)
		}
	}
}

// hasTest reports whether a folder has a test with the name.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "_test.go") {
			code, err := os.ReadFile(dir + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(code), "func "+name+"(t *testing.T)") {
				return true
			}
		}
	}
	return false
}
