package postgres

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// FuzzText checks that any text survives a round trip through a column, that PostgreSQL can store
// it, and that an array of texts keeps its length.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "\xff", `\x`, `\x00`, `\x4`, `a"b`, `a\b`, "{a,b}", "NULL", "é"} {
		f.Add(s, "b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, s := range []string{a, b} {
			kept := sqlrow.Storable(s)
			if sqlrow.Plain(kept) != s || !utf8.ValidString(kept) || strings.IndexByte(kept, 0) >= 0 {
				t.Errorf("%q is kept as %q, which is %q", s, kept, sqlrow.Plain(kept))
			}
			meta := sqlrow.DecodeMeta(sqlrow.EncodeMeta(map[string]string{s: s}))
			if len(meta) != 1 || meta[s] != s {
				t.Errorf("%q comes back as %q", s, meta)
			}
		}
		if a != b && sqlrow.Storable(a) == sqlrow.Storable(b) {
			t.Errorf("%q and %q are both %q", a, b, sqlrow.Storable(a))
		}
		literal := array(2, func(to []byte, i int) []byte { return appendText(to, []string{a, b}[i]) })
		if got := elements(literal); len(got) != 2 || got[0] != a || got[1] != b {
			t.Errorf("%q and %q are %s", a, b, literal)
		}
	})
}

// elements reads an array literal as the server does: every element is in quotes, and a backslash
// escapes the next byte.
func elements(literal []byte) (all []string) {
	tail := literal[1 : len(literal)-1]
	for len(tail) > 0 && tail[0] == '"' {
		var one []byte
		i := 1
		for ; i < len(tail) && tail[i] != '"'; i++ {
			if tail[i] == '\\' {
				i++
			}
			one = append(one, tail[i])
		}
		all = append(all, string(one))
		tail = bytes.TrimPrefix(tail[min(i+1, len(tail)):], []byte(","))
	}
	return all
}

// FuzzAnswer checks that an invalid answer is an error, and that a valid one is plausible.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"", "1", "-1", "0", "x", "{}", `{"answer":"+","fence":1,"used":1}`, `{"answer":"=","fence":-1}`, `{"answer":"-","retry":-5,"blocker":{"key":"k","meta":{"a":1},"left":-1}}`,
		`{"answer":"-","blocker":null}`, `{"answer":"-","blocker":{"meta":[]}}`, `{"answer":"i"}`, `{"answer":"f"}`, `{"answer":"b"}`, `{"answer":"-","retry":9223372036854775807}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		res, err := new(Store).result(driver.Request{Weight: 1, Limit: 1}, [][][]byte{{text}})
		switch {
		case err != nil && res.Granted:
			t.Errorf("%q is granted and an error: %v", text, err)
		case err == nil && res.Granted && (res.Fence == 0 || res.Fence >= 1<<53):
			t.Errorf("%q is granted with the fence %d", text, res.Fence)
		case err == nil && (res.Retry < 0 || res.Ahead < 0 || res.Behind < 0 || res.Used < 0):
			t.Errorf("%q is %+v", text, res)
		case err == nil && (res.Blocker.Held < 0 || res.Blocker.Left < 0):
			t.Errorf("%q has a claim with a negative time: %+v", text, res.Blocker)
		}
	})
}
