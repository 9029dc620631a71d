package deadlock

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// A Notice shows that a task waits while it holds a lease, as a store has it.
type Notice struct {
	Task, Holder string
	Tag          string // of the owner of the lease
	Key          string // of the lease
	Fence        uint64
	Wants        string // the key that the task waits for
	Entry        string // the tag of its queue entry; empty: it has none
	Waited       time.Duration

	content content
}

// ReadNotice returns the notice in a claim with the key of notices: it is prefix and the tag of the
// owner. It fails for a claim that is no notice.
func ReadNotice(c driver.Claim, prefix string) (Notice, bool) {
	tag, ok := strings.CutPrefix(c.Key, prefix)
	var text content
	if !ok || c.Waiting || json.Unmarshal(c.Value, &text) != nil || text.Key == "" || text.Wants == "" {
		return Notice{}, false
	}
	return Notice{
		Task: c.Task, Holder: c.Holder, Tag: tag, Key: text.Key, Fence: text.Fence, Wants: text.Wants, Entry: text.Entry,
		Waited: text.Waited + c.Held, content: text,
	}, true
}

// Find returns the cycles among the tasks of some notices, by the rules of a [Detector]: each task
// is in one cycle at most. It reads keys as [driver.Show] does. The cycle that it returns is
// certain only if a second call, a moment later, returns one with the same [Cycle.Fingerprint].
func Find(ctx context.Context, read func(context.Context, string) ([]driver.Claim, error), key func(tag string) string, notices []Notice) ([]*Cycle, error) {
	var out []*Cycle
	for i, n := range notices {
		first := slices.IndexFunc(notices, func(o Notice) bool { return o.Task == n.Task }) == i
		known := slices.ContainsFunc(out, func(c *Cycle) bool { return c.set[n.Task] != nil })
		if !first || known {
			continue
		}
		self := &node{
			task: n.Task, waited: n.Waited,
			Wait: Wait{Key: n.Wants, Holder: n.Holder, Demand: n.content.Demand, Entry: n.Entry, Ahead: n.content.Ahead},
		}
		c, err := (&graph{read: read, key: key}).findCycle(ctx, self)
		switch {
		case err != nil:
			return out, err
		case c != nil:
			out = append(out, c)
		}
	}
	return out, nil
}
