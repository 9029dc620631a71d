package sqlite

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"
)

// The state of a key is one blob in its row: entries in the order of the constants below, each a
// letter and its fields. Integers are varints, and a text is its length and its bytes. See
// docs/layout.md.
const (
	claimEntry    = 'c' // the oldest claim
	rowsEntry     = 'e' // counts the rows of the table entry
	brokenEntry   = 'b' // owners whose claim was broken
	observerEntry = 'o' // sockets of processes that watch the key without a claim
	stateVersion  = 3   // of the file: its user_version
)

var errState = errors.New("the row of the key cannot be read")

// encode returns the state of k, nil if k has no entries, and the end of the last entry.
func (k *key) encode() (state []byte, ends time.Duration) {
	var b []byte
	if k.first != nil {
		b, ends = k.first.encode(append(b, claimEntry)), k.first.ends
	}
	if r := k.rows; !r.none() {
		b, ends = numbers(append(b, rowsEntry), r.claims, r.used, r.queue, r.next, int64(r.ends)), max(ends, r.ends)
	}
	for _, x := range k.broken {
		b = text(text(append(b, brokenEntry), x.owner), x.reason)
		b, ends = binary.AppendVarint(b, int64(x.ends)), max(ends, x.ends)
	}
	for _, o := range k.observers {
		b = text(append(b, observerEntry), o.socket)
		b, ends = binary.AppendVarint(b, int64(o.ends)), max(ends, o.ends)
	}
	return b, ends
}

func (c *claim) encode(b []byte) []byte {
	b = numbers(text(b, c.owner), c.weight, c.limit, int64(c.fence), int64(c.since), int64(c.ends), int64(c.ttl), c.until)
	b = text(text(text(b, c.socket), c.holder), c.task)
	b = binary.AppendVarint(b, int64(len(c.meta)))
	for _, name := range slices.Sorted(maps.Keys(c.meta)) { // the same claim has the same bytes: see save
		b = text(text(b, name), c.meta[name])
	}
	return text(b, string(c.value))
}

func numbers(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func text(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

// decode adds the entries of a state to k.
func (k *key) decode(state []byte) error {
	r := reader{rest: state}
	for len(r.rest) > 0 && !r.bad {
		entry := r.rest[0]
		r.rest = r.rest[1:]
		switch entry {
		case claimEntry:
			k.first = r.claim()
		case rowsEntry:
			k.rows = rows{claims: r.number(), used: r.number(), queue: r.number(), next: r.number(), ends: r.time()}
		case brokenEntry:
			k.broken = append(k.broken, broken{r.text(), r.text(), r.time()})
		case observerEntry:
			k.observers = append(k.observers, observer{r.text(), r.time()})
		default:
			return errState
		}
	}
	if r.bad {
		return errState
	}
	return nil
}

// A reader reads the output of encode.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) claim() *claim {
	c := &claim{
		owner: r.text(), weight: r.number(), limit: r.number(), fence: uint64(r.number()), since: r.time(), ends: r.time(),
		ttl: r.time(), until: r.number(), socket: r.text(), holder: r.text(), task: r.text(),
	}
	for n := r.number(); n > 0 && !r.bad; n-- {
		if c.meta == nil {
			c.meta = map[string]string{}
		}
		name := r.text()
		c.meta[name] = r.text()
	}
	if v := r.text(); v != "" {
		c.value = []byte(v)
	}
	return c
}

func (r *reader) time() time.Duration { return time.Duration(r.number()) }

func (r *reader) number() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() string {
	n := r.number()
	if n < 0 || n > int64(len(r.rest)) {
		r.bad = true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
