package sqlite

import (
	"bytes"
	"testing"
	"time"
)

// FuzzState checks that a malformed state is an error, and that a state survives decode and encode.
func FuzzState(f *testing.F) {
	whole := &key{
		claims: []*claim{{
			owner: "o", holder: "h", task: "t", weight: 1, limit: 2, fence: 3, since: 4, ends: 5, ttl: 1, until: 6,
			meta: map[string]string{"a": "b"}, value: []byte("v"),
		}},
		queue:     []*claim{{owner: "q", weight: 1, limit: 1, ends: time.Hour, socket: "s"}},
		broken:    []broken{{"o", "why", 7}},
		observers: []observer{{"s", 8}},
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
		// Maps have no order, and integers have several encodings: compare after a second round.
		once, ends := k.encode()
		var again key
		if err := again.decode(once); err != nil {
			t.Fatalf("%q was decoded, and its new encoding was not: %v", state, err)
		}
		twice, same := again.encode()
		if len(once) != len(twice) || ends != same || len(k.claims) != len(again.claims) ||
			len(k.queue) != len(again.queue) {
			t.Errorf("%q became %q", once, twice)
		}
		for i, c := range k.claims {
			d := again.claims[i]
			if c.owner != d.owner || c.fence != d.fence || c.ends != d.ends || c.ttl != d.ttl || c.until != d.until ||
				!bytes.Equal(c.value, d.value) || len(c.meta) != len(d.meta) {
				t.Errorf("%+v became %+v", c, d)
			}
		}
	})
}
