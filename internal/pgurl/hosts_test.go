package pgurl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/pgurl"
)

func TestWritable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"postgres://a,b/db":                        true,
		"postgres://u:p,w@a:1,b:2":                 true,
		"postgres:///db?host=a%2Cb":                true,
		"postgres://a,b/db?connect_timeout=1":      true,
		"postgres://a,b/db?target_session_attrs=x": false,
		"postgres://a,b/db?host=c":                 false,
		"postgres://u:p,w@a/db":                    false,
		"postgres://a/d,b":                         false,
		"postgres:///db":                           false,
	} {
		base, query, _ := strings.Cut(text, "?")
		kept := pgurl.Writable(base, strings.Split(query, "&"))
		if got := slices.Contains(kept, "target_session_attrs=read-write"); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
