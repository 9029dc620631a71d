package deadlock

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// maxReads bounds how many keys are read for one graph. A task beyond that counts as free.
const maxReads = 128

// A node is a task that waits, as its notices describe it.
type node struct {
	task   string
	Wait                       // the claim that it waits for
	waited time.Duration       // for how long
	holds  map[claimID]holding // its leases that the graph has found so far

	claims  []driver.Claim // the claims that are held on the key it waits for
	demands []Demand       // its own demand, and those that are granted before it
	free    bool           // it is certainly not blocked forever
}

// A claimID names a claim that is held: its key, and the tag of its owner.
type claimID struct{ key, tag string }

// A holding describes a lease.
type holding struct {
	fence uint64
	held  time.Duration
}

func (n *node) hold(id claimID, h holding) {
	if n.holds == nil {
		n.holds = map[claimID]holding{}
	}
	n.holds[id] = h
}

// blocked reports whether n waits forever if used of its key's capacity is never released.
func (n *node) blocked(used int64) bool {
	return slices.ContainsFunc(n.demands, func(d Demand) bool { return used+d.Weight > d.Limit })
}

// A graph is the wait-for graph: it leads from one task to the tasks that hold the claims that
// block it, and from those to the tasks that block them, as far as they wait.
type graph struct {
	read  func(ctx context.Context, key string) ([]driver.Claim, error) // as driver.Show
	key   func(tag string) string                                       // the key of the notices about an owner
	reads int
	nodes map[string]*node    // by task
	held  map[claimID][]*node // the tasks that wait while they hold a claim
}

// findCycle reads all keys that can be reached from a node, and returns the cycle that the node is
// part of, or nil if there is none.
//
// A node is blocked if there will never be capacity for it, or for a demand that is granted before
// it, even when all tasks that are not blocked release their claims. So one blocked reader blocks a
// writer, but one blocked holder of a semaphore that has other holders does not block a waiter. A
// cycle is a set of nodes that are blocked because of each other, and of no other node.
func (g *graph) findCycle(ctx context.Context, self *node) (*Cycle, error) {
	g.nodes, g.held = map[string]*node{self.task: self}, map[claimID][]*node{}
	for todo := []*node{self}; len(todo) > 0; todo = todo[1:] {
		next, err := g.visit(ctx, todo[0])
		if err != nil {
			return nil, err
		}
		todo = append(todo, next...)
	}
	blocked := maps.Clone(g.nodes)
	for {
		g.shrink(blocked)
		ring := g.ring(self, blocked)
		if ring[self.task] == nil {
			return nil, nil
		}
		if len(ring) == len(blocked) {
			return &Cycle{g, self, ring}, nil
		}
		blocked = ring // the other nodes can continue, or wait for nodes outside this cycle
	}
}

// visit reads the claims that block a node. It returns the nodes that were not known before.
func (g *graph) visit(ctx context.Context, at *node) (found []*node, err error) {
	claims, err := g.show(ctx, at.Key)
	if err != nil {
		return nil, err
	}
	at.demands = append([]Demand{at.Demand}, at.Ahead...)
	entry := slices.IndexFunc(claims, func(c driver.Claim) bool { return c.Waiting && c.Owner == at.Entry })
	for i, c := range claims {
		switch {
		case c.Waiting && i < entry:
			at.demands = append(at.demands, Demand{c.Weight, c.Limit})
		case !c.Waiting && !c.Kept:
			at.claims = append(at.claims, c)
			at.free = at.free || c.Owner == at.Entry // it was granted just now
		}
	}
	used := int64(0) // by claims whose holders may be blocked
	for _, c := range at.claims {
		used += c.Weight
	}
	for _, c := range at.claims {
		if at.free = at.free || g.reads >= maxReads || !at.blocked(used); at.free {
			return found, nil
		}
		more, err := g.holders(ctx, c)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
		if len(g.held[claimID{c.Key, c.Owner}]) == 0 {
			used -= c.Weight // its holder does not wait, and will release it
		}
	}
	at.free = !at.blocked(used)
	return found, nil
}

// holders reads the notices about a claim. It returns the nodes that were not known before.
func (g *graph) holders(ctx context.Context, claim driver.Claim) (found []*node, err error) {
	id := claimID{claim.Key, claim.Owner}
	if _, known := g.held[id]; known {
		return nil, nil
	}
	notices, err := g.show(ctx, g.key(claim.Owner))
	if err != nil {
		return nil, err
	}
	g.held[id] = nil
	for _, n := range notices {
		var c content
		// Tags are short: an owner of another key may have the same tag.
		if json.Unmarshal(n.Value, &c) != nil || c.Key != claim.Key || n.Waiting {
			continue
		}
		one := g.nodes[n.Task]
		if one == nil {
			one = &node{
				task: n.Task, waited: c.Waited + n.Held,
				Wait: Wait{Key: c.Wants, Holder: n.Holder, Demand: c.Demand, Entry: c.Entry, Ahead: c.Ahead},
			}
			g.nodes[n.Task] = one
			found = append(found, one)
		}
		one.hold(id, holding{c.Fence, c.Held + n.Held})
		g.held[id] = append(g.held[id], one)
	}
	return found, nil
}

// show reads one key.
func (g *graph) show(ctx context.Context, key string) ([]driver.Claim, error) {
	g.reads++
	call, cancel := context.WithTimeout(ctx, noticeTTL)
	defer cancel()
	return g.read(call, key)
}

// shrink removes from a set the nodes that are not blocked if all nodes outside the set can
// continue.
func (g *graph) shrink(blocked map[string]*node) {
	for again := true; again; {
		again = false
		for task, one := range blocked {
			used := int64(0)
			for _, c := range one.claims {
				if slices.ContainsFunc(g.held[claimID{c.Key, c.Owner}], func(by *node) bool { return blocked[by.task] != nil }) {
					used += c.Weight
				}
			}
			if one.free || !one.blocked(used) {
				delete(blocked, task)
				again = true
			}
		}
	}
}

// ring returns the nodes of a set that block self, directly or through other nodes, and that self
// blocks.
func (g *graph) ring(self *node, set map[string]*node) map[string]*node {
	behind := map[string][]*node{}
	for _, one := range set {
		for _, b := range g.blockers(one, set) {
			behind[b.task] = append(behind[b.task], one)
		}
	}
	to := reach(self, func(one *node) []*node { return g.blockers(one, set) })
	from := reach(self, func(one *node) []*node { return behind[one.task] })
	maps.DeleteFunc(to, func(task string, _ *node) bool { return from[task] == nil })
	return to
}

// blockers returns the nodes of a set that hold claims on the key that one waits for.
func (g *graph) blockers(one *node, set map[string]*node) (out []*node) {
	for _, c := range one.claims {
		for _, by := range g.held[claimID{c.Key, c.Owner}] {
			if set[by.task] != nil && !slices.Contains(out, by) {
				out = append(out, by)
			}
		}
	}
	slices.SortFunc(out, func(a, b *node) int { return strings.Compare(a.task, b.task) })
	return out
}

// reach returns all nodes that can be reached from a node by at least one step.
func reach(from *node, next func(*node) []*node) map[string]*node {
	out := map[string]*node{}
	for todo := next(from); len(todo) > 0; todo = todo[1:] {
		if one := todo[0]; out[one.task] == nil {
			out[one.task] = one
			todo = append(todo, next(one)...)
		}
	}
	return out
}
