package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
)

const (
	maxRing      = 64                     // tasks of one deadlock
	maxPosted    = 1024                   // notices that are remembered
	noticeLife   = 5 * time.Second        // a notice that is not renewed any more is forgotten
	maxDeadlocks = 20                     // deadlocks of different callers or names that are remembered
	maxPrints    = 16                     // fingerprints of one deadlock that are remembered
	confirmAfter = 100 * time.Millisecond // between the two looks at a cycle
	confirmLimit = 2 * time.Second        // for both looks
)

// A deadlockSeen is a cycle of callers that waited for each other, once or several times.
type deadlockSeen struct {
	First, At time.Time // At is the last time
	Times     int
	Tasks     []deadlock.Task // of the last time
	same      string          // the callers and their names
	prints    []string        // of the last times, the newest last
}

// keys returns the keys that a deadlock is about.
func (d *deadlockSeen) keys() (out []string) {
	for _, t := range d.Tasks {
		out = append(out, t.Waits.Key)
		for _, c := range t.Holds {
			out = append(out, c.Key)
		}
	}
	return out
}

// deadlocks finds deadlocks among the callers of one Recorder. The library fails one of the calls
// of a deadlock within two seconds, so a scan every two seconds misses most of them. But their
// notices go through the Recorder. If they form a ring by their keys alone, which is rare, the
// store is read by the rules of the library's detector, two times. Otherwise no call of the store
// is made.
type deadlocks struct {
	notices map[driver.ID]posted

	mu      sync.Mutex // guards the fields below, which are also used without the mutex of the Recorder
	looking bool
	seen    []*deadlockSeen // the newest last
}

type posted struct {
	deadlock.Notice
	ends time.Time
}

// posted records a notice. It is called with the mutex of the Recorder.
func (d *deadlocks) posted(s driver.Store, q driver.Request, now time.Time) {
	c := driver.Claim{Key: q.Key, Holder: q.Holder, Task: q.Task, Value: q.Value}
	n, ok := deadlock.ReadNotice(c, string(names.Notice))
	if !ok {
		return
	}
	if d.notices == nil {
		d.notices = map[driver.ID]posted{}
	}
	for id, p := range d.notices {
		if now.After(p.ends) {
			delete(d.notices, id)
		}
	}
	if len(d.notices) >= maxPosted {
		return
	}
	d.notices[q.ID] = posted{n, now.Add(noticeLife)}
	if all := d.ring(n); all != nil {
		d.confirm(s, all)
	}
}

// renewed keeps a notice. It is called with the mutex of the Recorder.
func (d *deadlocks) renewed(id driver.ID, now time.Time) {
	if p, ok := d.notices[id]; ok {
		p.ends = now.Add(noticeLife)
		d.notices[id] = p
	}
}

// removed forgets a notice. It is called with the mutex of the Recorder.
func (d *deadlocks) removed(id driver.ID) { delete(d.notices, id) }

// ring returns the notices of the tasks that can be reached from a task, if the task is one of
// them.
func (d *deadlocks) ring(from deadlock.Notice) []deadlock.Notice {
	var all []deadlock.Notice
	seen, closed := map[string]bool{}, false
	for todo := []string{from.Wants}; len(todo) > 0; todo = todo[1:] {
		for _, p := range d.notices {
			if p.Key != todo[0] {
				continue
			}
			closed = closed || p.Task == from.Task
			if !seen[p.Task] && len(all) < maxRing {
				seen[p.Task] = true
				all, todo = append(all, p.Notice), append(todo, p.Wants)
			}
		}
	}
	if !closed {
		return nil
	}
	return all
}

// confirm looks at the store two times, in the background, and records the cycles that it saw both
// times.
func (d *deadlocks) confirm(s driver.Store, notices []deadlock.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looking {
		return
	}
	d.looking = true
	read := func(ctx context.Context, key string) ([]driver.Claim, error) { return driver.Show(ctx, s, key) }
	go func() {
		defer func() {
			d.mu.Lock()
			d.looking = false
			d.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), confirmLimit)
		defer cancel()
		first, err := deadlock.Find(ctx, read, names.Notice.Key, notices)
		if err != nil || len(first) == 0 {
			return
		}
		time.Sleep(confirmAfter)
		second, _ := deadlock.Find(ctx, read, names.Notice.Key, notices)
		for _, c := range second {
			if slices.ContainsFunc(first, func(o *deadlock.Cycle) bool { return o.Fingerprint() == c.Fingerprint() }) {
				d.add(c.Tasks(), c.Fingerprint())
			}
		}
	}()
}

// add records a deadlock. The fingerprint is the same only for the same claims.
func (d *deadlocks) add(tasks []deadlock.Task, print string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	next := &deadlockSeen{First: now, At: now, Times: 1, Tasks: tasks, same: same(tasks), prints: []string{print}}
	if i := slices.IndexFunc(d.seen, func(o *deadlockSeen) bool { return o.same == next.same }); i >= 0 {
		old := d.seen[i]
		if slices.Contains(old.prints, print) {
			return
		}
		next.First, next.Times = old.First, old.Times+1
		next.prints = append(slices.Clone(old.prints[max(0, len(old.prints)-maxPrints+1):]), print)
		d.seen = slices.Delete(d.seen, i, i+1)
	}
	d.seen = append(d.seen, next)
	if len(d.seen) > maxDeadlocks {
		d.seen = d.seen[1:]
	}
}

// same returns a text that is the same for the deadlocks of the same callers about the same names.
func same(tasks []deadlock.Task) string {
	var parts []string
	for _, t := range tasks {
		var holds []string
		for _, c := range t.Holds {
			holds = append(holds, c.Key)
		}
		slices.Sort(holds)
		parts = append(parts, fmt.Sprintf("%q waits for %q and holds %q", t.Waits.Holder, t.Waits.Key, holds))
	}
	slices.Sort(parts) // each time begins with another task
	return strings.Join(parts, "\n")
}

// all returns the deadlocks, the newest first.
func (d *deadlocks) all() []*deadlockSeen {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Clone(d.seen)
	slices.Reverse(out)
	return out
}
