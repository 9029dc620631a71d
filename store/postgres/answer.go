package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// An answer is the result of acquire, if it is more than a fence.
type answer struct {
	Answer                            string
	Fence, Used, Ahead, Behind, Retry int64
	Blocker                           *claimInfo
}

// A claimInfo is the type claim_info of the schema.
type claimInfo struct {
	Key, Owner, Holder, Task         string
	Weight, Limit, Fence, Held, Left int64
	Meta                             json.RawMessage
	Value                            string
	Waiting, Kept                    bool
}

// result reads the answer to an Acquire.
func (s *Store) result(r driver.Request, rows [][][]byte) (driver.Result, error) {
	if len(rows) != 1 || len(rows[0]) != 1 || len(rows[0][0]) == 0 {
		return driver.Result{}, sqlrow.ErrAnswer
	}
	text := rows[0][0]
	if text[0] != '{' { // the key was free, and no one waits
		fence, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || !sqlrow.IsFence(fence) {
			return driver.Result{}, sqlrow.ErrAnswer
		}
		return driver.Result{Granted: true, Fence: uint64(fence), Used: r.Weight}, nil
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || min(a.Used, a.Ahead, a.Behind) < 0 {
		return driver.Result{}, sqlrow.ErrAnswer
	}
	switch a.Answer {
	case "+", "=":
		if !sqlrow.IsFence(a.Fence) {
			break
		}
		return driver.Result{Granted: true, Fence: uint64(a.Fence), Used: a.Used,
			Behind: int(a.Behind)}, nil
	case "-":
		return driver.Result{Used: a.Used, Ahead: int(a.Ahead), Behind: int(a.Behind),
			Retry: sqlrow.Span(a.Retry), Blocker: a.Blocker.claim()}, nil
	case "i":
		return driver.Result{}, fmt.Errorf("%w: floor %d is more than an hour ahead",
			driver.ErrInvalid, r.Floor)
	case "f":
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	case "b":
		return driver.Result{}, errBusy
	}
	return driver.Result{}, sqlrow.ErrAnswer
}

// claim returns the zero claim for nil.
func (t *claimInfo) claim() driver.Claim {
	if t == nil {
		return driver.Claim{}
	}
	c := driver.Claim{
		Key: sqlrow.Plain(t.Key), Weight: t.Weight, Limit: t.Limit, Fence: uint64(max(t.Fence, 0)),
		Holder: sqlrow.Plain(t.Holder), Task: sqlrow.Plain(t.Task),
		Meta: sqlrow.DecodeMeta(t.Meta), Held: sqlrow.Span(t.Held), Left: sqlrow.Span(t.Left), Waiting: t.Waiting, Kept: t.Kept,
	}
	if t.Owner != "" {
		c.Owner = driver.Tag(sqlrow.Plain(t.Owner))
	}
	if t.Value != "" {
		c.Value = bytea(t.Value)
	}
	return c
}

// bytea reads the text of a bytea. Hex digits are in the format of [sqlrow.Storable]. If the role
// has bytea_output = escape, no text begins so: a backslash is two, and other bytes are a backslash
// and three octal digits.
func bytea(text string) []byte {
	if strings.HasPrefix(text, sqlrow.Escape) {
		return []byte(sqlrow.Plain(text))
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) && text[i+1] == '\\' {
			i++
		} else if c == '\\' && i+3 < len(text) {
			n, _ := strconv.ParseUint(text[i+1:i+4], 8, 8) // the server writes nothing else
			c, i = byte(n), i+3
		}
		out = append(out, c)
	}
	return out
}
