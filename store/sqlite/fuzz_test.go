package sqlite

import (
	"bytes"
	"testing"
	"time"
)

// FuzzState checks that a malformed state is an error, and that a state survives decode and encode.
func FuzzState(f *testing.F) {
	whole := &key{
		first: &claim{
			owner: "o", holder: "h", task: "t", weight: 1, limit: 2, fence: 3, since: 4, ends: 5, ttl: 1, until: 6,
			meta: map[string]string{"a": "b"}, value: []byte("v"), socket: "s",
		},
		rows:      rows{claims: 1, used: 2, queue: 3, next: 4, ends: time.Hour},
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
		// Integers have several encodings: compare after a second round.
		once, ends := k.encode()
		var again key
		if err := again.decode(once); err != nil {
			t.Fatalf("%q was decoded, and its new encoding was not: %v", state, err)
		}
		twice, same := again.encode()
		if !bytes.Equal(once, twice) || ends != same || (k.first == nil) != (again.first == nil) {
			t.Errorf("%q became %q", once, twice)
		}
		if c, d := k.first, again.first; c != nil && d != nil {
			if c.owner != d.owner || c.fence != d.fence || c.ends != d.ends || c.ttl != d.ttl || c.until != d.until ||
				!bytes.Equal(c.value, d.value) || len(c.meta) != len(d.meta) {
				t.Errorf("%+v became %+v", c, d)
			}
		}
	})
}
