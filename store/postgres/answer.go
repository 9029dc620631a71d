package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/distlock/distlock/driver"
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
		return driver.Result{}, errAnswer
	}
	text := rows[0][0]
	if text[0] != '{' { // the key was free, and no one waits
		fence, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || !isFence(fence) {
			return driver.Result{}, errAnswer
		}
		return driver.Result{Granted: true, Fence: uint64(fence), Used: r.Weight}, nil
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || min(a.Used, a.Ahead, a.Behind) < 0 {
		return driver.Result{}, errAnswer
	}
	switch a.Answer {
	case "+", "=":
		if !isFence(a.Fence) {
			break
		}
		return driver.Result{Granted: true, Fence: uint64(a.Fence), Used: a.Used,
			Behind: int(a.Behind)}, nil
	case "-":
		return driver.Result{Used: a.Used, Ahead: int(a.Ahead), Behind: int(a.Behind),
			Retry: span(a.Retry), Blocker: a.Blocker.claim()}, nil
	case "i":
		return driver.Result{}, fmt.Errorf("%w: floor %d is more than an hour ahead",
			driver.ErrInvalid, r.Floor)
	case "f":
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	case "b":
		return driver.Result{}, errBusy
	}
	return driver.Result{}, errAnswer
}

// isFence reports whether n is a valid fence of a grant.
func isFence(n int64) bool { return n > 0 && n < 1<<53 }

// span returns a duration of this many microseconds, at least 0 and at most the maximum.
func span(us int64) time.Duration {
	return time.Duration(min(max(us, 0), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

// claim returns the zero claim for nil.
func (t *claimInfo) claim() driver.Claim {
	if t == nil {
		return driver.Claim{}
	}
	c := driver.Claim{
		Key: plain(t.Key), Weight: t.Weight, Limit: t.Limit, Fence: uint64(max(t.Fence, 0)),
		Holder: plain(t.Holder), Task: plain(t.Task),
		Meta: decodeMeta(t.Meta), Held: span(t.Held), Left: span(t.Left), Waiting: t.Waiting, Kept: t.Kept,
	}
	if t.Owner != "" {
		c.Owner = driver.Tag(plain(t.Owner))
	}
	if t.Value != "" {
		c.Value = []byte(plain(t.Value)) // row_to_json writes bytea in the format of storable
	}
	return c
}
