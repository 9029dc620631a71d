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

// wide adds the runs that take minutes: for the night.
var wide = flag.Bool("wide", false, "also search with the wider bounds")

// A run is one search through all states of a model.
type run struct {
	model   string
	mutant  string // the switch that breaks one rule; empty: the model as it is
	bounds  string // the other switches, separated by spaces
	least   int    // how many states there are at least: a model that is stuck proves nothing
	wide    bool
	bits    int  // not 0: there are too many states, and so many as 2^bits bits remember are looked at
	fair    bool // search for cycles in which a waiter is never granted
	because string
}

// runs are the models as they are, and one mutant for each rule.
var runs = []run{
	{model: "lease", bounds: "GRANTS=3 ASKS=1", least: 500_000},
	{model: "lease", bounds: "GRANTS=4 ASKS=1", least: 5_000_000, wide: true},
	{model: "lease", bounds: "GRANTS=3 ASKS=2", least: 2_000_000, wide: true},
	{model: "lease", bounds: "GRANTS=5 ASKS=0", least: 13_000_000, wide: true},
	{model: "lease", bounds: "GRANTS=12 ASKS=4", bits: 21, least: 900_000},
	{model: "lease", bounds: "GRANTS=12 ASKS=4", bits: 25, least: 10_000_000, wide: true},
	{model: "lease", mutant: "NO_OWNER_CHECK", because: "a release ends another's claim"},
	{model: "lease", mutant: "RENEW_BY_EXISTENCE", because: "a renewal takes another's claim for its own"},
	{model: "lease", mutant: "EXTEND_OR_CREATE", because: "a hold goes on over another's grant"},
	{model: "lease", mutant: "ASK_AGAIN_RAISES", because: "a repeated ask changes the fence of a claim"},
	{model: "lease", mutant: "NO_CLOCK_PART", because: "after a restart fences begin anew"},
	{model: "lease", mutant: "COUNTER_WITH_THE_KEY", because: "fences begin anew with every claim"},
	{model: "lease", mutant: "TRUST_FROM_REPLY", because: "the claim runs out before its holder knows"},
	{model: "lease", mutant: "TRUST_UNTIL_RELEASED", because: "a holder trusts what it has given back"},
	{model: "lease", mutant: "NO_FENCE_COMPARE", because: "a late write lands over a newer one"},
	{model: "lease", mutant: "STRICT_COMPARE", because: "a holder's second write is refused"},
	{model: "lease", mutant: "FENCE_AS_TEXT", bounds: "GRANTS=12 ASKS=4", bits: 21, because: "the tenth fence is refused after the ninth"},

	{model: "redlock", bounds: "TRIES=2 LOSSES=1 RENEWALS=1 RESTARTS=0", least: 2_000_000},
	{model: "redlock", bounds: "TRIES=2 LOSSES=0 RENEWALS=0 RESTARTS=1", least: 100_000},
	{model: "redlock", bounds: "TRIES=3 LOSSES=2 RENEWALS=0 RESTARTS=1 ALONE", least: 100_000},
	{model: "redlock", bounds: "TRIES=2 LOSSES=1 RENEWALS=0 RESTARTS=1", least: 5_000_000, wide: true},
	{model: "redlock", bounds: "TRIES=2 LOSSES=0 RENEWALS=1 RESTARTS=1", least: 1_000_000, wide: true},
	{model: "redlock", bounds: "TRIES=3 LOSSES=3 RENEWALS=0 RESTARTS=1 ALONE", least: 2_500_000, wide: true},
	{model: "redlock", mutant: "QUORUM_HALF", bounds: "TRIES=2 LOSSES=0 RENEWALS=0 RESTARTS=0", because: "half of the nodes are no majority"},
	{model: "redlock", mutant: "NO_WRITE_BACK", bounds: "TRIES=3 LOSSES=3 RENEWALS=0 RESTARTS=0 ALONE", because: "a fence that a majority has not stored repeats"},
	{model: "redlock", mutant: "YOUNG_COUNTED", bounds: "TRIES=2 LOSSES=1 RENEWALS=0 RESTARTS=1", because: "a node that forgot gives the key away"},
	{model: "redlock", mutant: "LATE_COUNTED", bounds: "TRIES=2 LOSSES=0 RENEWALS=0 RESTARTS=0", because: "a grant whose time was over before the last answer"},
	{model: "redlock", mutant: "TOP_UP_COUNTED", bounds: "TRIES=2 LOSSES=0 RENEWALS=1 RESTARTS=0", because: "a renewal that makes claims anew goes on over another's grant"},
	{model: "redlock", mutant: "NO_CLOCK_PART", bounds: "TRIES=2 LOSSES=2 RENEWALS=0 RESTARTS=1 ALONE", because: "a node that forgot begins its fences anew"},

	{model: "line", fair: true, least: 3_000},
	{model: "line", fair: true, bounds: "LOSSLESS NO_POLL", least: 1_000}, // what watching first is good for
	{model: "line", fair: true, mutant: "NO_POLL", because: "a lost wake-up is never made good"},
	{model: "line", fair: true, mutant: "DEAD_HEAD_STAYS", because: "who died at the head blocks the line"},
	{model: "line", fair: true, mutant: "NO_LINE", because: "others are let in before, again and again"},
	{model: "line", fair: true, mutant: "ASK_THEN_WATCH", bounds: "LOSSLESS NO_POLL", because: "a release between the refusal and the watch is not heard"},
}

// Every model holds, and every mutant of it does not.
func TestModels(t *testing.T) {
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, program, "apt-get install spin gcc, or scripts/servers")
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
			case strings.Contains(out, "max search depth too small"), strings.Contains(out, "reached -DMEMLIM"):
				t.Errorf("not all states were looked at:\n%s", out)
			case r.mutant != "" && errs == 0:
				t.Errorf("the mutant is not found, though %s:\n%s", r.because, out)
			case r.mutant == "" && errs > 0:
				t.Errorf("the model does not hold:\n%s", out)
			case r.mutant == "" && states < r.least:
				t.Errorf("%d states, want %d at least: the model is stuck somewhere", states, r.least)
			}
		})
	}
}

// Every switch that breaks a rule is tried, and every one that is tried is in its model.
func TestModels_mutants(t *testing.T) {
	limit := regexp.MustCompile(`^[A-Z]+$`) // bounds have one word: their names are in #ifndef, or in the table
	for _, model := range []string{"lease", "redlock", "line"} {
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

// search makes a program of the model, which walks through its states, and returns what it says.
func (r run) search(t *testing.T, source string) string {
	dir := t.TempDir()
	args := []string{"-a"}
	for _, d := range strings.Fields(r.mutant + " " + r.bounds) {
		args = append(args, "-D"+d)
	}
	if r.model == "lease" && r.mutant != "" && r.bounds == "" {
		args = append(args, "-DGRANTS=2", "-DASKS=1") // enough for every one of them
	}
	program(t, dir, "spin", append(args, filepath.Join(source, r.model+".pml"))...)
	compile := []string{"-w", "-O1", "-DMEMLIM=4000", "-o", "pan", "pan.c"}
	if r.mutant != "" {
		compile[1] = "-O0" // an error is found before a faster program would be compiled
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

// program runs a program in a folder, and returns what it prints.
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

// number returns the number that a pattern finds in a text.
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
