package etcdkey

import (
	"strings"
	"testing"
	"testing/quick"
)

// Names never meet: the form of a name has no slash, can be read back, and begins with the forms of
// the beginnings of the name, so that a list by prefix is a range.
func TestEscape(t *testing.T) {
	if got := Escape("jobs/eu 100%\xff"); got != "jobs%2Feu%20100%25%FF" {
		t.Errorf("%q", got)
	}
	if err := quick.Check(func(a, b []byte) bool {
		form := Escape(string(a) + string(b))
		back, err := Unescape(form)
		return err == nil && back == string(a)+string(b) && !strings.Contains(form, "/") && strings.HasPrefix(form, Escape(string(a)))
	}, nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"%", "%2", "%zz"} {
		if _, err := Unescape(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
