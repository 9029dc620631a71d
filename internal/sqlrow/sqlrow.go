// Package sqlrow has what the stores on SQL tables share: how they read answers, and how they store
// texts.
package sqlrow

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/distlock/distlock/driver"
)

// ErrAnswer reports an answer that no version of a store's functions returns.
var ErrAnswer = errors.New("sql: the server sent an unexpected answer")

// A Reader reads the columns of a row in order. Null is the zero value.
type Reader struct {
	Cells [][]byte
	Err   error // ErrAnswer, if a column is missing or is no number
}

// Next returns the next column.
func (r *Reader) Next() []byte {
	if len(r.Cells) == 0 {
		r.Err = ErrAnswer
		return nil
	}
	c := r.Cells[0]
	r.Cells = r.Cells[1:]
	return c
}

// Text returns the next column as a text.
func (r *Reader) Text() string { return string(r.Next()) }

// Number returns the next column as a number.
func (r *Reader) Number() int64 {
	b := r.Next()
	if b == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		r.Err = ErrAnswer
	}
	return n
}

// Span returns the next column, a number of microseconds, as a duration.
func (r *Reader) Span() time.Duration { return Span(r.Number()) }

// Span returns a duration of this many microseconds, at least 0 and at most the maximum.
func Span(us int64) time.Duration {
	return time.Duration(min(max(us, 0), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

// IsFence reports whether n is a valid fence of a grant.
func IsFence(n int64) bool { return n > 0 && n < 1<<53 }

// Unavailable wraps an error of an operation that had no effect.
func Unavailable(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// Escape begins a text that is stored as the hex digits of its bytes.
const Escape = `\x`

// Storable returns a text as the tables store it. PostgreSQL stores neither zero bytes nor invalid
// UTF-8, and JSON has only valid UTF-8.
func Storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, Escape) {
		return s
	}
	return Escape + hex.EncodeToString([]byte(s))
}

// Plain reverses [Storable]. It returns text that is not valid hex, such as text written by hand,
// unchanged.
func Plain(s string) string {
	digits, ok := strings.CutPrefix(s, Escape)
	if !ok {
		return s
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return s
	}
	return string(b)
}

// EncodeMeta returns metadata as JSON, or nil for none.
func EncodeMeta(meta map[string]string) []byte {
	if len(meta) == 0 {
		return nil
	}
	safe := make(map[string]string, len(meta))
	for k, v := range meta {
		safe[Storable(k)] = Storable(v)
	}
	b, _ := json.Marshal(safe) // a map of strings always has a JSON form
	return b
}

// DecodeMeta reads metadata. Rows written by hand may have values that are not text, or something
// else than an object. DecodeMeta returns their JSON.
func DecodeMeta(b []byte) map[string]string {
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
		meta[Plain(k)] = Plain(text)
	}
	return meta
}

// Clocks compares the server's clock, which was read between two moments, with the local one.
// Claims do not depend on the local clock, but people who read both do.
func Clocks(theirs time.Duration, before, after time.Time) driver.Finding {
	at := time.UnixMicro(0).Add(theirs)
	off := time.Duration(0)
	switch {
	case at.Before(before):
		off = at.Sub(before)
	case at.After(after):
		off = at.Sub(after)
	}
	if off.Abs() < time.Second {
		return driver.Finding{Level: driver.LevelOK, What: "its clock and ours differ by less than a second"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: fmt.Sprintf("its clock is off from ours by %v", off.Round(time.Millisecond)),
		Means: "claims last as long as they should; but if the clock is set while claims are held, they end early or late",
		Cure:  "run NTP on the server",
	}
}
