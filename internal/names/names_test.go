package names_test

import (
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/names"
)

func TestKind(t *testing.T) {
	seen := map[string]string{}
	for _, k := range names.Shown {
		if got, ok := names.Parse(k.Word()); !ok || got != k {
			t.Errorf("Parse(%q): %q, %v", k.Word(), got, ok)
		}
		for _, name := range []string{"a", "~a", "~~a", "~sem/a", "sem/a", "~check/a", "/"} {
			key := k.Key(name)
			if other := seen[key]; other != "" {
				t.Errorf("%q of %q has the key of %s", name, k, other)
			}
			seen[key] = string(k) + " " + name
			if kind, got, ok := names.Split(key); !ok || kind != k || got != name {
				t.Errorf("Split(%q): %q, %q, %v", key, kind, got, ok)
			}
		}
	}
	for _, key := range []string{names.Check.Key("a"), names.Notice.Key("a"), "~other/a"} {
		if _, _, ok := names.Split(key); ok {
			t.Errorf("%q is shown", key)
		}
	}
	if _, ok := names.Parse("check"); ok {
		t.Error("the kind of a probe can be named")
	}
}

func TestFlaw(t *testing.T) {
	for name, want := range map[string]string{
		"a": "", "ä/ö 1": "", strings.Repeat("x", names.Max): "",
		"": "empty", "  ": "only spaces", "a\nb": `"a\nb" contains U+000A`, "a\u202eb": "contains U+202E", "\xff": "not UTF-8",
		strings.Repeat("x", names.Max+1): "has 256 bytes, more than 255",
	} {
		if got := names.Flaw(name); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := names.Quote(strings.Repeat("é", 100)); len(got) > 70 || !strings.HasSuffix(got, `"...`) {
		t.Errorf("a long name: %s", got)
	}
}
