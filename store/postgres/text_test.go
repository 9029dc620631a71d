package postgres_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/distlock/distlock/internal/testenv"
)

// Any bytes in a request survive a round trip through the tables.
func TestStore_anyBytes(t *testing.T) {
	t.Parallel()
	s := made(t, testenv.Postgres(t, testenv.Shared()).URL, fresh(t))
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`\x`, `\x61`, "\\", "\x00", "\xff", `"`, "a\x00\xffb", `\X61`, "{}"}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(rt *rapid.T) {
		r := exclusive(texts.Filter(func(s string) bool { return s != "" && len(s) <= 512 }).Draw(rt, "key"))
		r.Owner += texts.Filter(func(s string) bool { return len(s) < 400 }).Draw(rt, "owner")
		r.Holder, r.Task = texts.Draw(rt, "holder"), texts.Draw(rt, "task")
		r.Meta = rapid.MapOfN(texts, texts, 0, 3).Draw(rt, "meta")
		r.Value = rapid.SliceOf(rapid.Byte()).Draw(rt, "value")
		grant(t, s, r)
		cs, err := s.Show(t.Context(), r.Key)
		if err != nil || len(cs) != 1 {
			rt.Fatalf("Show: %v, %v", cs, err)
		}
		c := cs[0]
		if c.Key != r.Key || c.Holder != r.Holder || c.Task != r.Task ||
			string(c.Value) != string(r.Value) || !maps.Equal(c.Meta, r.Meta) {
			rt.Fatalf("%+v was returned as %+v", r, c)
		}
		n := 0
		for c, err := range s.List(t.Context(), r.Key[:(len(r.Key)+1)/2]) {
			if err != nil {
				rt.Fatal(err)
			}
			if c.Key == r.Key {
				n++
			}
		}
		if n != 1 {
			rt.Fatalf("List returned the claim %d times", n)
		}
		renew(t, s, r)
		if got := s.RenewAll(t.Context(), renewals(r)); got[0].Err != nil {
			rt.Fatal(got[0].Err)
		}
		release(t, s, r)
	})
}
