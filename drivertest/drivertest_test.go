package drivertest

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun shows that a store that is not broken passes, so that the faults below are
// caught for what they are.
func TestRun(t *testing.T) { Run(t, bentEnv(nil)) }

func TestCompare(t *testing.T) { Compare(t, bentEnv(nil)) }

func TestLaws_catch_faults(t *testing.T) {
	byName := map[string]law{}
	for _, l := range laws() {
		byName[l.name] = l
	}
	caught := map[string]bool{}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			if len(f.laws) == 0 {
				t.Fatal("no law is named that tells")
			}
			for _, name := range f.laws {
				l, ok := byName[name]
				if !ok {
					t.Fatalf("no law is called %q", name)
				}
				v := l.judge(t, bentEnv(f.bend))
				if !strings.Contains(v.failure, l.sentence) {
					t.Errorf("the law %q holds: %s (failure %q, missing %v)", name, l.sentence, v.failure, v.missing)
				}
				caught[name] = true
			}
		})
	}
	for name := range byName {
		if !caught[name] {
			t.Errorf("no fault breaks the law %q, so it may be unable to fail", name)
		}
	}
}

func TestLaws_are_told_apart(t *testing.T) {
	var names, sentences []string
	for _, l := range laws() {
		names, sentences = append(names, l.name), append(sentences, l.sentence)
		if l.sentence == "" || strings.HasSuffix(l.sentence, ".") || l.sentence != strings.TrimSpace(l.sentence) {
			t.Errorf("the law %q has the sentence %q", l.name, l.sentence)
		}
	}
	slices.Sort(names)
	slices.Sort(sentences)
	if len(slices.Compact(names)) != len(laws()) || len(slices.Compact(sentences)) != len(laws()) {
		t.Error("two laws have one name or one sentence")
	}
}

var _ driver.Store = (*bent)(nil)
