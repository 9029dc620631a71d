package models_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// wide adds the runs that take minutes: for nightly runs.
var wide = flag.Bool("wide", false, "also search with the wider bounds")

// A run is one search through all states of a model.
type run struct {
	model   string
	mutant  string // the switch that breaks one rule; empty: the correct model
	bounds  string // the other switches, separated by spaces
	least   int    // the minimum number of states: a model that is stuck proves nothing
	wide    bool
	bits    int  // not 0: there are too many states; the search covers as many as 2^bits bits can record
	fair    bool // search for cycles in which a waiter is never granted
	because string
}

// runs are the correct models, and one mutant for each rule.
var runs = []run{
	{model: "lease", bounds: "GRANTS=3 CALLS=1", least: 500_000},
	{model: "lease", bounds: "GRANTS=4 CALLS=1", least: 5_000_000, wide: true},
	{model: "lease", bounds: "GRANTS=3 CALLS=2", least: 2_000_000, wide: true},
	{model: "lease", bounds: "GRANTS=5 CALLS=0", least: 13_000_000, wide: true},
	{model: "lease", bounds: "GRANTS=12 CALLS=4", bits: 21, least: 900_000},
	{model: "lease", bounds: "GRANTS=12 CALLS=4", bits: 25, least: 10_000_000, wide: true},
	{model: "lease", mutant: "NO_OWNER_CHECK", because: "a release ends another's claim"},
	{model: "lease", mutant: "RENEW_BY_EXISTENCE", because: "a renewal extends another's claim"},
	{model: "lease", mutant: "EXTEND_OR_CREATE", because: "a hold continues during another's grant"},
	{model: "lease", mutant: "REPEAT_RAISES",
		because: "a repeated attempt changes the fence of a claim"},
	{model: "lease", mutant: "NO_CLOCK_PART", because: "after a restart fences begin again"},
	{model: "lease", mutant: "COUNTER_WITH_THE_KEY", because: "fences begin again with every claim"},
	{model: "lease", mutant: "TRUST_FROM_REPLY", because: "the claim expires before its holder knows"},
	{model: "lease", mutant: "TRUST_UNTIL_RELEASED",
		because: "a holder trusts a lease that it has released"},
	{model: "lease", mutant: "NO_FENCE_COMPARE", because: "a late write overwrites a newer one"},
	{model: "lease", mutant: "STRICT_COMPARE", because: "a holder's second write is refused"},
	{model: "lease", mutant: "FENCE_AS_TEXT", bounds: "GRANTS=12 CALLS=4", bits: 21,
		because: "the tenth fence is refused after the ninth"},

	{model: "redlock", bounds: "TRIES=2 LOSSES=1 RENEWALS=1 RESTARTS=0", least: 2_000_000},
	{model: "redlock", bounds: "TRIES=2 LOSSES=0 RENEWALS=0 RESTARTS=1", least: 100_000},
	{model: "redlock", bounds: "TRIES=3 LOSSES=2 RENEWALS=0 RESTARTS=1 ALONE", least: 100_000},
	{model: "redlock", bounds: "TRIES=2 LOSSES=1 RENEWALS=0 RESTARTS=1", least: 5_000_000, wide: true},
	{model: "redlock", bounds: "TRIES=2 LOSSES=0 RENEWALS=1 RESTARTS=1", least: 1_000_000, wide: true},
	{model: "redlock", bounds: "TRIES=3 LOSSES=3 RENEWALS=0 RESTARTS=1 ALONE",
		least: 2_500_000, wide: true},
	{model: "redlock", mutant: "QUORUM_HALF", bounds: "TRIES=2 LOSSES=0 RENEWALS=0 RESTARTS=0",
		because: "half of the nodes are no majority"},
	{model: "redlock", mutant: "NO_WRITE_BACK", bounds: "TRIES=3 LOSSES=3 RENEWALS=0 RESTARTS=0 ALONE",
		because: "a fence that a majority has not stored repeats"},
	{model: "redlock", mutant: "RESTARTED_COUNTED", bounds: "TRIES=2 LOSSES=1 RENEWALS=0 RESTARTS=1",
		because: "a node that forgot grants the key again"},
	{model: "redlock", mutant: "LATE_COUNTED", bounds: "TRIES=2 LOSSES=0 RENEWALS=0 RESTARTS=0",
		because: "a grant whose deadline passed before the last answer counts"},
	{model: "redlock", mutant: "TOP_UP_COUNTED", bounds: "TRIES=2 LOSSES=0 RENEWALS=1 RESTARTS=0",
		because: "a renewal that creates claims again continues during another's grant"},
	{model: "redlock", mutant: "NO_CLOCK_PART", bounds: "TRIES=2 LOSSES=2 RENEWALS=0 RESTARTS=1 ALONE",
		because: "a node that forgot begins its fences again"},

	{model: "queue", fair: true, least: 3_000},
	{model: "queue", fair: true, bounds: "LOSSLESS NO_POLL", least: 1_000}, // the reason to watch first
	{model: "queue", fair: true, mutant: "NO_POLL", because: "a lost wake-up is never repeated"},
	{model: "queue", fair: true, mutant: "DEAD_HEAD_STAYS",
		because: "a dead client at the head blocks the queue"},
	{model: "queue", fair: true, mutant: "NO_QUEUE",
		because: "others are granted the key first, again and again"},
	{model: "queue", fair: true, mutant: "ACQUIRE_THEN_WATCH", bounds: "LOSSLESS NO_POLL",
		because: "a release between the refusal and the watch goes unnoticed"},
}

// Every correct model holds, and every mutant does not.
func TestModels(t *testing.T) {
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, program, "apt-get install spin gcc, or scripts/servers --all")
		}
	}
	source, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.wide && !*wide {
			continue
		}
		name := strings.Join(append([]string{r.model}, strings.Fields(r.mutant+" "+r.bounds)...), " ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			out := r.search(t, source)
			states, errs := number(t, out, `(\d+) states, stored`), number(t, out, `errors: (\d+)`)
			t.Logf("%d states, %d errors, in %v", states, errs, time.Since(began).Round(time.Millisecond))
			switch {
			case strings.Contains(out, "max search depth too small"),
				strings.Contains(out, "reached -DMEMLIM"):
				t.Errorf("not all states were searched:\n%s", out)
			case r.mutant != "" && errs == 0:
				t.Errorf("the mutant is not detected, though %s:\n%s", r.because, out)
			case r.mutant == "" && errs > 0:
				t.Errorf("the model does not hold:\n%s", out)
			case r.mutant == "" && states < r.least:
				t.Errorf("%d states, want %d at least: the model is stuck somewhere", states, r.least)
			}
		})
	}
}

// Every switch that breaks a rule is tried, and every switch that is tried is in its model.
func TestModels_mutants(t *testing.T) {
	limit := regexp.MustCompile(`^[A-Z]+$`) // bounds are one word: their names are in #ifndef, or in the table
	for _, model := range []string{"lease", "redlock", "queue"} {
		text, err := os.ReadFile(model + ".pml")
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^#ifn?def ([A-Z_]+)`).FindAllStringSubmatch(string(text), -1) {
			in[m[1]] = !limit.MatchString(m[1])
		}
		for _, r := range runs {
			if r.model == model && r.mutant != "" {
				if _, ok := in[r.mutant]; !ok {
					t.Errorf("%s does not know %s", model, r.mutant)
				}
				delete(in, r.mutant)
			}
		}
		for name, mutant := range in {
			if mutant {
				t.Errorf("%s knows %s, which is not tried", model, name)
			}
		}
	}
}

// search compiles the model to a program that walks through its states, runs it, and returns its
// output.
func (r run) search(t *testing.T, source string) string {
	dir := t.TempDir()
	args := []string{"-a"}
	for _, d := range strings.Fields(r.mutant + " " + r.bounds) {
		args = append(args, "-D"+d)
	}
	if r.model == "lease" && r.mutant != "" && r.bounds == "" {
		args = append(args, "-DGRANTS=2", "-DCALLS=1") // enough for every mutant
	}
	program(t, dir, "spin", append(args, filepath.Join(source, r.model+".pml"))...)
	compile := []string{"-w", "-O1", "-DMEMLIM=4000", "-o", "pan", "pan.c"}
	if r.mutant != "" {
		compile[1] = "-O0" // the slower program finds an error before a faster one would be compiled
	}
	find := []string{"-m100000"}
	if r.bits > 0 {
		compile = append(compile, "-DBITSTATE")
		find = append(find, fmt.Sprint("-w", r.bits))
	}
	if r.fair {
		compile = append(compile, "-DNFAIR=6")
		find = append(find, "-a", "-f") // cycles, under weak fairness
	} else {
		compile = append(compile, "-DSAFETY")
	}
	program(t, dir, "gcc", compile...)
	return program(t, dir, filepath.Join(dir, "pan"), find...)
}

// program runs a program in a folder, and returns its output.
func program(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// number returns the number that a pattern matches in a text.
func number(t *testing.T, text, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in:\n%s", pattern, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", m[0], err))
	}
	return n
}
