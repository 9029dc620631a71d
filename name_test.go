package distlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/distlock/distlock"
)

// badNames are refused names, with the reason.
var badNames = map[string]string{
	"":                               "empty",
	" ":                              "only spaces",
	"\u00a0\u2003 ":                  "only spaces",
	strings.Repeat("x", 256):         "256 bytes, more than 255",
	strings.Repeat("\U0001F600", 64): "256 bytes, more than 255",
	strings.Repeat("x", 1<<20):       "more than 255",
	"a\xff":                          "not UTF-8",
	"\xed\xa0\x80":                   "not UTF-8",
	"a\x00b":                         "contains U+0000",
	"a\nb":                           "contains U+000A",
	"a\tb":                           "contains U+0009",
	"\x1b[31mred":                    "contains U+001B",
	"a\u007f":                        "contains U+007F",
	"a\u0085b":                       "contains U+0085",
	"a\u2028b":                       "contains U+2028",
	"a\u2029b":                       "contains U+2029",
	"a\u202ab":                       "contains U+202A",
	"a\u202eb":                       "contains U+202E",
	"a\u2066b":                       "contains U+2066",
	"a\u2069b":                       "contains U+2069",
	"\ufeffa":                        "contains U+FEFF",
}

func TestName_refused(t *testing.T) {
	w := newFlakyStore()
	l := lockerOn(t, w)
	f := func(context.Context) error { t.Error("f ran"); return nil }
	calls := map[string]func(name string) error{
		"Lock":     func(n string) error { _, err := l.Lock(t.Context(), n); return err },
		"TryLock":  func(n string) error { _, err := l.TryLock(t.Context(), n); return err },
		"RLock":    func(n string) error { _, err := l.RLock(t.Context(), n); return err },
		"TryRLock": func(n string) error { _, err := l.TryRLock(t.Context(), n); return err },
		"Do":       func(n string) error { return l.Do(t.Context(), n, f) },
		"TryDo":    func(n string) error { _, err := l.TryDo(t.Context(), n, f); return err },
		"Status":   func(n string) error { _, err := l.Status(t.Context(), distlock.KindLock, n); return err },
		"DoValue": func(n string) error {
			_, err := distlock.DoValue(t.Context(), l, n, func(ctx context.Context) (int, error) { return 0, f(ctx) })
			return err
		},
	}
	for call, take := range calls {
		for name, why := range badNames {
			err := take(name)
			wantInvalid(t, err, "name")
			msg := err.Error()
			if !strings.Contains(msg, why) || !strings.HasPrefix(msg, "distlock: invalid name: ") {
				t.Errorf("%s: message %q, want %q", call, msg, why)
			}
			wantPlain(t, msg)
		}
	}
	if n := w.count(""); n != 0 {
		t.Errorf("the store was called %d times", n)
	}
}

// wantPlain fails if a message contains terminal control characters, or more than 64 bytes of
// input.
func wantPlain(t testing.TB, msg string) {
	t.Helper()
	for _, r := range msg {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == 0x2028 || r == 0x202e || r == 0xfeff {
			t.Errorf("the message contains %U: %q", r, msg)
		}
	}
	if strings.Contains(msg, strings.Repeat("x", 65)) || len(msg) > 400 {
		t.Errorf("the message echoes too much: %q", msg)
	}
}

func TestName_distinct(t *testing.T) {
	names := []string{
		"a", "a/", "/a", "a ", " a", "A", "é", "e\u0301", "{", "}", "{}", "{a}", "*", "?", "[", "[a]", "%", "%41", "_", "'", `"`, ";--", "..", "../a", "./a",
		"/etc/x", "$(x)", "a:b", "a\\b", "a|b", "~", "~~", "~a", "~~a", "~sem/a", "~~sem/a", "~rate/a", "~once/a", "~lead/a", "~check/a", "sem/a",
		"1", "01", "1.0", "true", "null", "日本", "\U0001F600", strings.Repeat("x", 255), strings.Repeat("x", 254), strings.Repeat("\U0001F600", 63),
	}
	w := newFlakyStore()
	l := lockerOn(t, w)
	for _, name := range names {
		lease := taken(t, l, name) // it is free: it is no other name's lock
		if lease.Name() != name {
			t.Errorf("%q became %q", name, lease.Name())
		}
	}
	var seen []string
	for c, err := range l.List(t.Context(), distlock.KindAny, "") {
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind != distlock.KindLock {
			t.Errorf("%q is of kind %s", c.Name, c.Kind)
		}
		seen = append(seen, c.Name)
	}
	slices.Sort(seen)
	slices.Sort(names)
	if !slices.Equal(seen, names) {
		t.Errorf("claims %q, want %q", seen, names)
	}
	for _, name := range names {
		if _, err := l.TryLock(t.Context(), name); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("%q: %v", name, err)
		}
		if why, err := l.Status(t.Context(), distlock.KindLock, name); err != nil || len(why.Holders) != 1 || why.Holders[0].Name != name {
			t.Errorf("%q: %v %v", name, why, err)
		}
	}
}
