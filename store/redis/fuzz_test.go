package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/distlock/distlock/driver"
)

// FuzzName checks that a key has one Redis key and a Redis key one key, and that the braces around
// a name, by which a cluster chooses the node, enclose the whole name.
func FuzzName(f *testing.F) {
	for _, pair := range [][2]string{{"a", "b"}, {"{", "%7B"}, {"}", "%7D"}, {"%", "%25"}, {"{}", "%7B%7D"}, {"%257B", "%7B"}, {"", "}:c"}, {"a}:c", "a"}, {"\xff", "é"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		const prefix = "lock:"
		name := func(key string) string { return string(appendName(nil, prefix, key)) }
		for _, key := range []string{a, b} {
			back, ok := keyOf(strings.TrimPrefix(name(key), prefix))
			if !ok || back != key {
				t.Errorf("%q is %q, which is %q", key, name(key), back)
			}
			f := newFrame()
			f.name(prefix, key, parts...)
			c := f.call(&script{})
			for i, k := range c.Keys {
				if i > 0 && (k[0] != '{' || k[1:strings.IndexByte(k, '}')] != c.Keys[0]) {
					t.Errorf("%q is not on the node of %q", k, c.Keys[0])
				}
			}
			f.free()
		}
		if a != b && name(a) == name(b) {
			t.Errorf("%q and %q are both %q", a, b, name(a))
		}
	})
}

// FuzzAnswer checks that a text that no script returns is an error, and that the result makes sense
// otherwise.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"", "+1", "=128 1073741824 2", "-1 2 3 4\no 5 0 1073741824 1073741824 0 0 0 1 0 0\nx", "i", "f", "a1 2 +1", "a", "+-1", "+9223372036854775808",
		"-1 0 0 9223372036854775807\nr 5 6 1\nx9 1 1 1 1 1", "-1 0 0 0\nc 1 9223372036854775807 1 1 1 1 1 1 1 1\nxyz", "+5\nn\nb3\nwhyw\n", "b-1\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		res, err := result("key", 7, text)
		switch {
		case err == nil && (res.Retry < 0 || res.Age < 0 || res.Ahead < 0 ||
			res.Behind < 0 || res.Used < 0):
			t.Errorf("%q is %+v", text, res)
		case err == nil && res.Granted && res.Fence == 0:
			t.Errorf("%q grants without a fence", text)
		case err == nil && !res.Granted && res.Blocker.Key != "key":
			t.Errorf("%q is of another key: %+v", text, res)
		case err != nil && res.Granted:
			t.Errorf("%q is granted and an error: %v", text, err)
		}
		if b := res.Blocker; err == nil && (b.Held < 0 || b.Left < 0) {
			t.Errorf("%q has a claim with a negative time: %+v", text, b)
		}
		r := reader{rest: text}
		for r.rest != "" && r.err == nil {
			before := len(r.rest)
			behind, err := r.renewed("key")
			if behind < 0 || len(r.rest) >= before || err != nil && behind != 0 {
				t.Fatalf("%q: %d, %v, and %q is left", text, behind, err, r.rest)
			}
			if broken := (*driver.BrokenError)(nil); errors.As(err, &broken) &&
				!strings.Contains(text, broken.Reason) {
				t.Errorf("%q: the reason is %q", text, broken.Reason)
			}
		}
	})
}

// Names that would break the braces of their own Redis keys, or look like an escape, stay distinct
// and on one node.
func TestName(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"a", "{", "}", "{}", "}{", "%", "%7B", "%7D", "%25", "%257B", "a}:c", "{a}", "a{b}c", "*", "?", "[", "_", "'", `"`, ";--", "..", "/etc/x", "$(x)", "é", "e\u0301"} {
		name := string(appendName(nil, "lock:", key))
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %q", key, other, name)
		}
		seen[name] = key
		if strings.ContainsAny(name, "{}") {
			t.Errorf("%q is %q, which ends the braces around it", key, name)
		}
		if back, ok := keyOf(strings.TrimPrefix(name, "lock:")); !ok || back != key {
			t.Errorf("%q comes back as %q", key, back)
		}
	}
}
