package mysql

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

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

// validKey reports whether a key can have claims.
func validKey(key string) bool { return key != "" && len(key) <= driver.MaxKey }
