package deadlock

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A notice in the store shows that a task waits while it holds a lease.
type notice struct {
	held   Held
	id     driver.ID
	posted bool   // it is certainly in the store; if false, it may be there too
	text   []byte // the posted text; nil: not posted, or not known
}

// content is the text of a notice. Durations end at the moment when the notice was granted, because
// hosts cannot compare their times of day.
type content struct {
	Key    string        `json:"key"`   // the key of the lease
	Fence  uint64        `json:"fence"` // of the lease
	Held   time.Duration `json:"held"`
	Wants  string        `json:"wants"` // the key that the task waits for
	Waited time.Duration `json:"waited"`
	Demand
	Entry string   `json:"place,omitempty"`
	Ahead []Demand `json:"ahead,omitempty"`
}

// changed returns the new text of a notice, or nil if the text is the same. The durations stay,
// because they end at the moment when the notice was granted.
func (n *notice) changed(c content) []byte {
	var old content
	if json.Unmarshal(n.text, &old) == nil {
		c.Held, c.Waited = old.Held, old.Waited
	}
	text := c.text()
	if slices.Equal(text, n.text) {
		return nil
	}
	n.text = text
	return text
}

func (c content) text() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return b
}

// Keys returns the keys in the text of a notice: of the lease that is held, and of the claim that
// its task waits for.
func Keys(text []byte) (holds, wants string, ok bool) {
	var c content
	if json.Unmarshal(text, &c) != nil || c.Key == "" || c.Wants == "" {
		return "", "", false
	}
	return c.Key, c.Wants, true
}
