package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/etcdkey"
)

// A space is the keys of one name. Its claims are below c/, its queue entries below q/.
type space struct{ name, base, notes string }

func (s *Store) space(name string) space {
	n := etcdkey.Escape(name)
	return space{name: name, base: etcdkey.Base(s.prefix, name), notes: s.prefix + "b/" + n + "/"}
}

func (k space) claim(hash string) string { return k.base + "c/" + hash }
func (k space) entry(hash string) string { return k.base + "q/" + hash }
func (k space) note(hash string) string  { return k.notes + hash }

// hashOf returns the owner as it stands in keys: a reader of a key cannot use its claim. It begins
// with driver.Tag.
func hashOf(owner string) string {
	h := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(h[:])
}

// after returns the end of the range of all keys that begin with prefix.
func after(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(prefix[last]+1) // prefixes end in a slash or a letter, never in 0xff
}

// A text is any bytes. In JSON it is escaped where it is not UTF-8.
type text string

// form returns the text as it stands in JSON, and textOf is the reverse.

func (t text) form() string {
	if strings.ContainsAny(string(t), "%\ufffd") || !utf8.ValidString(string(t)) {
		return "%" + etcdkey.Escape(string(t))
	}
	return string(t)
}

func textOf(form string) (text, error) {
	escaped, ok := strings.CutPrefix(form, "%")
	if !ok {
		return text(form), nil
	}
	s, err := etcdkey.Unescape(escaped)
	return text(s), err
}

// MarshalText implements [encoding.TextMarshaler].
func (t text) MarshalText() ([]byte, error) { return []byte(t.form()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *text) UnmarshalText(b []byte) (err error) {
	*t, err = textOf(string(b))
	return err
}

// A record is the value of the key of a claim or of a queue entry.
type record struct {
	Weight  int64           `json:"weight"`
	Limit   int64           `json:"limit"`
	Seconds int64           `json:"ttl"` // of the lease
	At      int64           `json:"at"`  // Unix time in µs by the clock of the client that created it
	Holder  text            `json:"holder,omitempty"`
	Task    text            `json:"task,omitempty"`
	Meta    map[string]text `json:"meta,omitempty"` // by the form of the key: JSON does not marshal keys
	Value   []byte          `json:"value,omitempty"`
	Kept    bool            `json:"kept,omitempty"`
}

func recordOf(r *driver.Request, seconds, at int64) record {
	rec := record{
		Weight: r.Weight, Limit: r.Limit, Seconds: seconds, At: at,
		Holder: text(r.Holder), Task: text(r.Task), Value: r.Value,
	}
	if len(r.Meta) > 0 {
		rec.Meta = make(map[string]text, len(r.Meta))
		for k, v := range r.Meta {
			rec.Meta[text(k).form()] = text(v)
		}
	}
	return rec
}

func (r record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // no field can fail
	}
	return b
}

// An item is a claim or a queue entry with its key.
type item struct {
	record
	kv    *mvccpb.KeyValue
	owner string // the hash
	waits bool   // a queue entry
}

// itemOf reads a key below base. It returns nil for a key that no store has written.
func itemOf(base string, kv *mvccpb.KeyValue) *item {
	kind, owner, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), base), "/")
	it := &item{kv: kv, owner: owner, waits: kind == "q"}
	if !ok || kind != "c" && kind != "q" || json.Unmarshal(kv.Value, &it.record) != nil {
		return nil
	}
	return it
}

// slack returns how much longer the lease is than the TTL.
func (it *item) slack() time.Duration {
	if it.waits || it.Kept {
		return 0
	}
	return slack(it.Weight, it.Seconds)
}

func (it *item) fence() uint64 {
	if it.waits {
		return 0
	}
	return fenceOf(it.kv.CreateRevision)
}

// fenceOf returns the first of the driver.Span fences of a claim that a revision created.
func fenceOf(revision int64) uint64 { return uint64(revision) * driver.Span }

// describe returns the public part, with the remaining life of the lease.
func (it *item) describe(name string, left time.Duration) driver.Claim {
	c := driver.Claim{
		Key: name, Owner: it.owner[:min(8, len(it.owner))], Weight: it.Weight, Limit: it.Limit, Fence: it.fence(),
		Holder: string(it.Holder), Task: string(it.Task), Value: it.Value,
		Held: max(0, time.Since(time.UnixMicro(it.At))), Left: left, Waiting: it.waits, Kept: it.Kept,
	}
	if len(it.Meta) > 0 {
		c.Meta = make(map[string]string, len(it.Meta))
		for k, v := range it.Meta {
			if key, err := textOf(k); err == nil {
				c.Meta[string(key)] = string(v)
			}
		}
	}
	return c
}
