package guard

import "testing"

func TestStyle_mark(t *testing.T) {
	t.Parallel()
	const query = "set a = {} where b = {} and c <= cast({} as bigint)"
	for want, got := range map[string]string{
		"set a = $3 where b = $4 and c <= cast($5 as bigint)": Dollar.mark(query, 3),
		"set a = ? where b = ? and c <= cast(? as bigint)":    Question.mark(query, 3),
		"select 1": Dollar.mark("select 1", 1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCheckNames(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "_a1", "a.b", "A.b.c", `"a b"`, `a."b;c"`, `"a"."b"`} {
		if err := CheckNames("x", good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", " ", "1a", "a b", "a;", "a--", "a.", ".a", "a..b", `"a`, `""`, `"a"b"`, "a\x00", "\"a\x00\"", "é", "a\n", "(select 1)"} {
		if CheckNames("x", bad) == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}
