package mysql

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/distlock/distlock/driver"
)

// Calls of procedures contain their arguments, as numbers and as hex digits: one round trip without
// a prepared statement, and no text can end a literal.

// hexOf returns bytes as a literal of SQL. Nil is the empty text.
func hexOf[T string | []byte](b T) string { return "x'" + hex.EncodeToString([]byte(b)) + "'" }

// orNull returns nil for no bytes.
func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// hexOrNull returns null for no bytes.
func hexOrNull(b []byte) string {
	if len(b) == 0 {
		return "NULL"
	}
	return hexOf(b)
}

func number[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// list joins the arguments of a procedure.
func list(args ...string) string { return "(" + strings.Join(args, ", ") + ")" }

// digest returns an owner as the tables store it: a reader of the tables cannot end a claim with
// it.
func digest(owner string) []byte {
	h := sha256.Sum256([]byte(owner))
	return h[:]
}

// tag returns the [driver.Tag] of a stored owner.
func tag(digest []byte) string { return hex.EncodeToString(digest[:min(4, len(digest))]) }

// micros returns a duration in microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// span returns a duration of this many microseconds, at least 0 and at most the maximum.
func span(us int64) time.Duration {
	return time.Duration(min(max(us, 0), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

// validKey reports whether a key can have claims.
func validKey(key string) bool { return key != "" && len(key) <= driver.MaxKey }

// escape begins a text that is stored as the hex digits of its bytes.
const escape = `\x`

// encodeMeta returns metadata as JSON, or nil for none. JSON has only valid UTF-8.
func encodeMeta(meta map[string]string) []byte {
	if len(meta) == 0 {
		return nil
	}
	storable := func(s string) string {
		if utf8.ValidString(s) && !strings.HasPrefix(s, escape) {
			return s
		}
		return escape + hex.EncodeToString([]byte(s))
	}
	safe := make(map[string]string, len(meta))
	for k, v := range meta {
		safe[storable(k)] = storable(v)
	}
	b, _ := json.Marshal(safe) // a map of strings always has a JSON form
	return b
}

// decodeMeta reads metadata. Rows written by hand may have something else than an object of texts.
// decodeMeta returns their bytes.
func decodeMeta(b []byte) map[string]string {
	if len(b) == 0 {
		return nil
	}
	var safe map[string]string
	if err := json.Unmarshal(b, &safe); err != nil {
		return map[string]string{"meta": string(b)}
	}
	meta := make(map[string]string, len(safe))
	for k, v := range safe {
		meta[plain(k)] = plain(v)
	}
	return meta
}

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
