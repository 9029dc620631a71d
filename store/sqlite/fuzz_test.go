package sqlite

import (
	"bytes"
	"testing"
	"time"
)

// FuzzState holds that a row which is no row of ours is an error, and that what is read is written as it was.
func FuzzState(f *testing.F) {
	whole := &key{
		claims:    []*claim{{owner: "o", holder: "h", party: "p", weight: 1, limit: 2, fence: 3, since: 4, ends: 5, kept: true, meta: map[string]string{"a": "b"}, value: []byte("v")}},
		line:      []*claim{{owner: "q", weight: 1, limit: 1, ends: time.Hour, socket: "s"}},
		broken:    []broken{{"o", "why", 7}},
		onlookers: []onlooker{{"s", 8}},
	}
	state, _ := whole.encode()
	f.Add(state)
	f.Add([]byte{})
	f.Add([]byte("c"))
	f.Add([]byte("x"))
	f.Add([]byte{claimEntry, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, state []byte) {
		var k key
		if k.decode(state) != nil {
			return
		}
		// Maps have no order and numbers several forms: what is read is compared once more after it was written.
		once, ends := k.encode()
		var again key
		if err := again.decode(once); err != nil {
			t.Fatalf("%q was read, and what was written of it was not: %v", state, err)
		}
		twice, same := again.encode()
		if len(once) != len(twice) || ends != same || len(k.claims) != len(again.claims) || len(k.line) != len(again.line) {
			t.Errorf("%q became %q", once, twice)
		}
		for i, c := range k.claims {
			if d := again.claims[i]; c.owner != d.owner || c.fence != d.fence || c.ends != d.ends || !bytes.Equal(c.value, d.value) || len(c.meta) != len(d.meta) {
				t.Errorf("%+v became %+v", c, d)
			}
		}
	})
}
