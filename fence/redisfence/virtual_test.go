package redisfence_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// The rule, on a Redis in memory: it needs no server.
func TestGuard_virtual(t *testing.T) {
	s := miniredis.RunT(t)
	each(t, func(t *testing.T, open opener) {
		s.FlushAll()
		ctx, g := t.Context(), newGuard(t, open(t, s.Addr()), nil)
		set := func(n uint64, v string) error { return g.Set(ctx, proof(t, "a", n), "k", v) }
		want := func(v string) {
			t.Helper()
			if got, _ := s.Get("k"); got != v {
				t.Errorf("the key holds %q, want %q", got, v)
			}
		}
		t.Run("a higher fence and the same one again", func(t *testing.T) {
			must(t, set(9, "a"))
			must(t, set(9, "b"))
			want("b")
		})
		t.Run("integers", func(t *testing.T) {
			must(t, set(10, "c"))
			wantStale(t, set(9, "d"), 9, 10)
			must(t, set(1<<53-2, "e"))
			must(t, set(1<<53-1, "f"))
			wantStale(t, set(1<<53-2, "g"), 1<<53-2, 1<<53-1)
			want("f")
		})
		t.Run("a command that fails leaves its fence", func(t *testing.T) {
			if _, err := g.Do(ctx, proof(t, "b", 8), "k", "HSET", "a", "b"); err == nil {
				t.Error("no error")
			}
			wantStale(t, g.Set(ctx, proof(t, "b", 7), "k", "z"), 7, 8)
			want("f")
		})
	})
}
