package etcd

import (
	"bytes"
	"maps"
	"testing"
	"testing/quick"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/distlock/distlock/driver"
)

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
