package postgres

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/distlock/distlock/internal/sqlrow"
)

// encodeMeta returns metadata as JSON.
func encodeMeta(meta map[string]string) []byte {
	if len(meta) == 0 {
		return []byte("{}")
	}
	return sqlrow.EncodeMeta(meta)
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
