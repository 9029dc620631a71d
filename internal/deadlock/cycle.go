package deadlock

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distlock/distlock/driver"
)

// A Cycle is a set of tasks that are blocked because of each other.
type Cycle struct {
	graph *graph
	self  *node
	set   map[string]*node
}

// A Task is one of the tasks of a cycle.
type Task struct {
	Waits driver.Claim   // the claim that it waits for; Held: for how long
	Holds []driver.Claim // its leases that block other tasks of the cycle
}

// Tasks returns all tasks of the cycle. The detector's own task is first, and each task comes after
// one that waits for it.
func (c *Cycle) Tasks() (out []Task) {
	seen := map[string]bool{}
	var add func(one *node)
	add = func(one *node) {
		seen[one.task] = true
		waits := driver.Claim{
			Key: one.Key, Holder: one.Holder, Weight: one.Weight, Limit: one.Limit,
			Held: one.waited, Waiting: true,
		}
		out = append(out, Task{waits, c.edges(one)})
		for _, next := range c.graph.blockers(one, c.set) {
			if !seen[next.task] {
				add(next)
			}
		}
	}
	add(c.self)
	return out
}

// edges returns the leases of a node that block other nodes of the cycle, in order of their fences.
func (c *Cycle) edges(one *node) (out []driver.Claim) {
	for _, other := range c.set {
		for _, claim := range other.claims {
			id := claimID{claim.Key, claim.Owner}
			known := slices.ContainsFunc(out, func(o driver.Claim) bool { return o.Key == id.key && o.Owner == id.tag })
			if lease, ok := one.holds[id]; ok && !known {
				claim.Fence, claim.Held = lease.fence, lease.held // several leases can share a claim, one after the other
				out = append(out, claim)
			}
		}
	}
	slices.SortFunc(out, byFence)
	return out
}

func byFence(a, b driver.Claim) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), strings.Compare(a.Key, b.Key), strings.Compare(a.Owner, b.Owner))
}

// victim returns the task whose call fails: the task with the highest fence, which has worked for
// the shortest time. All tasks of the cycle choose the same victim.
func (c *Cycle) victim() *node {
	var out *node
	var highest driver.Claim
	for _, one := range c.set {
		last := c.edges(one)
		top := last[len(last)-1]
		if out == nil || cmp.Or(byFence(top, highest), strings.Compare(one.task, out.task)) > 0 {
			out, highest = one, top
		}
	}
	return out
}

// Fingerprint identifies a cycle by its tasks, the keys that they wait for, and the owners and
// fences of their leases.
func (c *Cycle) Fingerprint() string {
	var b strings.Builder
	for _, task := range slices.Sorted(maps.Keys(c.set)) {
		one := c.set[task]
		fmt.Fprintf(&b, "%q wants %q holds", task, one.Key)
		for _, e := range c.edges(one) {
			fmt.Fprintf(&b, " %q %s %d", e.Key, e.Owner, e.Fence)
		}
	}
	return b.String()
}
