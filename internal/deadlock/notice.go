package deadlock

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A notice says that a task waits while it holds a lease.
type notice struct {
	held   Held
	id     driver.ID
	posted bool   // surely; if not, it may be in the store all the same
	text   []byte // as it was posted; nil: it is not known, or none was
}

// content is the text of a notice. Durations count to the moment when the notice was granted: the
// time of day of one host means nothing to another.
type content struct {
	Key    string        `json:"key"`   // what is held
	Fence  uint64        `json:"fence"` // of the lease
	Held   time.Duration `json:"held"`
	Wants  string        `json:"wants"` // the key that the task waits for
	Waited time.Duration `json:"waited"`
	Demand
	Entry string   `json:"place,omitempty"`
	Ahead []Demand `json:"ahead,omitempty"`
}

// changed returns the new text of a notice, or nil if the text is the same. The durations stay:
// they
// count to when the notice was granted.
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
