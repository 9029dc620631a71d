package sqlrow

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestReader(t *testing.T) {
	r := Reader{Cells: [][]byte{[]byte("a"), []byte("7"), nil, []byte("1500")}}
	if text, n, null, span := r.Text(), r.Number(), r.Number(), r.Span(); text != "a" || n != 7 || null != 0 || span != 1500*time.Microsecond || r.Err != nil {
		t.Errorf("%q, %d, %d, %v, error %v", text, n, null, span, r.Err)
	}
	if r.Next() != nil || !errors.Is(r.Err, ErrAnswer) {
		t.Errorf("after the last column: error %v", r.Err)
	}
	r = Reader{Cells: [][]byte{[]byte("x")}}
	if n := r.Number(); n != 0 || !errors.Is(r.Err, ErrAnswer) {
		t.Errorf("x as a number: %d, error %v", n, r.Err)
	}
}

func TestMeta(t *testing.T) {
	meta := map[string]string{"a": "b", "zero": "\x00", "not UTF-8": "\xff", `\x`: `\x61`}
	b := EncodeMeta(meta)
	if bytes.ContainsAny(b, "\x00\xff") {
		t.Errorf("%q", b)
	}
	got := DecodeMeta(b)
	if len(got) != len(meta) {
		t.Fatalf("%q", got)
	}
	for k, v := range meta {
		if got[k] != v {
			t.Errorf("%q is %q, want %q", k, got[k], v)
		}
	}
	for text, want := range map[string]string{`{"n":1}`: "1", `[1]`: ""} {
		if got := DecodeMeta([]byte(text)); got["n"] != want || len(got) != 1 {
			t.Errorf("%s: %q", text, got)
		}
	}
	if DecodeMeta(nil) != nil || DecodeMeta([]byte("{}")) != nil || EncodeMeta(nil) != nil {
		t.Error("no metadata is not nil")
	}
}
