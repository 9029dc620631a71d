package postgres

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// escape begins a text that is stored as the hex digits of its bytes.
const escape = `\x`

// storable returns a text as the tables store it. PostgreSQL stores neither zero bytes nor invalid
// UTF-8.
func storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, escape) {
		return s
	}
	return escape + hex.EncodeToString([]byte(s))
}

// plain reverses storable. It returns text that is not valid hex, such as text written by hand,
// unchanged.
func plain(s string) string {
	digits, ok := strings.CutPrefix(s, escape)
	if !ok {
		return s
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return s
	}
	return string(b)
}

// encodeMeta returns metadata as JSON.
func encodeMeta(meta map[string]string) []byte {
	if len(meta) == 0 {
		return []byte("{}")
	}
	safe := make(map[string]string, len(meta))
	for k, v := range meta {
		safe[storable(k)] = storable(v)
	}
	b, _ := json.Marshal(safe) // a map of strings always has a JSON form
	return b
}

// decodeMeta reads metadata. Rows written by hand may have values that are not text, or something
// else than an object. decodeMeta returns their JSON.
func decodeMeta(b []byte) map[string]string {
	if len(b) == 0 || string(b) == "{}" {
		return nil
	}
	var safe map[string]json.RawMessage
	if err := json.Unmarshal(b, &safe); err != nil {
		return map[string]string{"meta": string(b)}
	}
	meta := make(map[string]string, len(safe))
	for k, v := range safe {
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			text = string(v)
		}
		meta[plain(k)] = plain(text)
	}
	return meta
}

// appendInterval appends a duration as an interval, rounded up to microseconds. No number is above
// 2^31: PostgreSQL 14 cannot read it.
func appendInterval(b []byte, d time.Duration) []byte {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	const second, hour = 1e6, 3600e6
	b = strconv.AppendInt(b, us/hour, 10)
	b = append(b, " hours "...)
	b = strconv.AppendInt(b, us%hour/second, 10)
	b = append(b, " seconds "...)
	b = strconv.AppendInt(b, us%second, 10)
	return append(b, " microseconds"...)
}

// appendText appends an element of an array.
func appendText[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// appendBytes appends an element of an array of bytea.
func appendBytes(b, value []byte) []byte {
	b = append(b, `"\\x`...)
	b = hex.AppendEncode(b, value)
	return append(b, '"')
}

// array returns an array literal of n elements that add appends.
func array(n int, add func(b []byte, i int) []byte) []byte {
	b := make([]byte, 0, 32*n+2)
	b = append(b, '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = add(b, i)
	}
	return append(b, '}')
}
