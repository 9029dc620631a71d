package etcd

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"testing/quick"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/distlock/distlock/driver"
)

// Names never meet: the form of a name has no slash, can be read back, and begins with the forms of
// the beginnings of the name, so that a list by prefix is a range.
func TestEscape(t *testing.T) {
	if got := escape("jobs/eu 100%\xff"); got != "jobs%2Feu%20100%25%FF" {
		t.Errorf("%q", got)
	}
	if err := quick.Check(func(a, b []byte) bool {
		form := escape(string(a) + string(b))
		back, err := unescape(form)
		return err == nil && back == string(a)+string(b) && !strings.Contains(form, "/") && strings.HasPrefix(form, escape(string(a)))
	}, nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"%", "%2", "%zz"} {
		if _, err := unescape(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Texts and values of any bytes are stored as they are.
func TestText(t *testing.T) {
	same := func(b []byte) bool {
		r := driver.Request{Holder: string(b), Meta: map[string]string{string(b): string(b)}, Value: b}
		it := itemOf("k/", &mvccpb.KeyValue{Key: []byte("k/c/01234567"), Value: recordOf(&r, 1, 2).encode()})
		if it == nil {
			return false
		}
		c := it.describe("k", 0)
		return c.Holder == r.Holder && maps.Equal(c.Meta, r.Meta) && bytes.Equal(c.Value, r.Value)
	}
	for _, s := range []string{"", "%", "%41", "é", "\xff", "\ufffd", "a\x00b", "<&>\u2028"} {
		if !same([]byte(s)) {
			t.Errorf("%q is not the same afterwards", s)
		}
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}
