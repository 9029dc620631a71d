package drivertest

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun shows that a store without a fault passes, so that the rules below find the faults and
// nothing else.
func TestRun(t *testing.T) { Run(t, bentEnv(nil)) }

func TestCompare(t *testing.T) { Compare(t, bentEnv(nil)) }

func TestRules_catch_faults(t *testing.T) {
	byName := map[string]rule{}
	for _, r := range rules() {
		byName[r.name] = r
	}
	caught := map[string]bool{}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			if len(f.rules) == 0 {
				t.Fatal("no rule is named that finds it")
			}
			for _, name := range f.rules {
				r, ok := byName[name]
				if !ok {
					t.Fatalf("there is no rule %q", name)
				}
				v := r.run(t, bentEnv(f.bend))
				if !strings.Contains(v.failure, r.sentence) {
					t.Errorf("the rule %q holds: %s (failure %q, missing %v)", name, r.sentence, v.failure, v.missing)
				}
				caught[name] = true
			}
		})
	}
	for name := range byName {
		if !caught[name] {
			t.Errorf("no fault breaks the rule %q, so it may be unable to fail", name)
		}
	}
}

func TestRules_are_distinct(t *testing.T) {
	var names, sentences []string
	for _, r := range rules() {
		names, sentences = append(names, r.name), append(sentences, r.sentence)
		if r.sentence == "" || strings.HasSuffix(r.sentence, ".") || r.sentence != strings.TrimSpace(r.sentence) {
			t.Errorf("the rule %q has the sentence %q", r.name, r.sentence)
		}
	}
	slices.Sort(names)
	slices.Sort(sentences)
	if len(slices.Compact(names)) != len(rules()) || len(slices.Compact(sentences)) != len(rules()) {
		t.Error("two rules have one name or one sentence")
	}
}

var _ driver.Store = (*bent)(nil)
