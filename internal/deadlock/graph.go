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

// maxLooks bounds how many keys are read for one graph. A task beyond that counts as free.
const maxLooks = 128

// A node is a task that waits, as its notices say.
type node struct {
	task   string
	Wait                       // what it waits for
	waited time.Duration       // for how long
	holds  map[claimID]holding // those of its leases that the graph has met

	claims  []driver.Claim // that are held on the key it waits for
	demands []Demand       // its own, and those that are served before it
	free    bool           // it is surely not blocked for ever
}

// A claimID names a claim that is held: its key, and the tag of its owner.
type claimID struct{ key, tag string }

// A holding is what is known of a lease.
type holding struct {
	fence uint64
	held  time.Duration
}

func (n *node) hold(id claimID, what holding) {
	if n.holds == nil {
		n.holds = map[claimID]holding{}
	}
	n.holds[id] = what
}

// blocked reports whether n waits for ever if so much of its key is never released.
func (n *node) blocked(used int64) bool {
	return slices.ContainsFunc(n.demands, func(d Demand) bool { return used+d.Weight > d.Limit })
}

// A graph is the wait-for graph: from one task to the holders in its way, and on to those in their
// way, as far as they wait.
type graph struct {
	d     *Detector
	looks int
	nodes map[string]*node    // by task
	held  map[claimID][]*node // the tasks that wait while they hold a claim
}

// findCycle reads all keys on the way from a node, and returns the cycle that the node is part of:
// nil if there is
// none.
//
// A node is blocked if there will never be capacity for it, or for one that is served before it,
// although all other tasks release what they can: that is, if the claims of nodes that are blocked
// themselves leave too little. So one blocked reader blocks a writer, but one of many holders of a
// semaphore blocks nobody. A cycle is a set of nodes that are blocked because of each other, and
// of nobody else.
func (d *Detector) findCycle(self *node) (*Cycle, error) {
	g := &graph{d: d, nodes: map[string]*node{self.task: self}, held: map[claimID][]*node{}}
	for todo := []*node{self}; len(todo) > 0; todo = todo[1:] {
		next, err := g.visit(d.ctx, todo[0])
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
		blocked = ring // the others can go on, or wait for what does not belong to this cycle
	}
}

// visit reads what is in the way of a node. It returns the nodes that were not known before.
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
		if at.free = at.free || g.looks >= maxLooks || !at.blocked(used); at.free {
			return found, nil
		}
		news, err := g.holders(ctx, c)
		if err != nil {
			return nil, err
		}
		found = append(found, news...)
		if len(g.held[claimID{c.Key, c.Owner}]) == 0 {
			used -= c.Weight // its holder does not wait: it will be released
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
	notices, err := g.show(ctx, g.d.Config.Key(claim.Owner))
	if err != nil {
		return nil, err
	}
	g.held[id] = nil
	for _, n := range notices {
		var c content
		if json.Unmarshal(n.Value, &c) != nil || c.Key != claim.Key || n.Waiting { // tags are short: another key's may be the same
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
	g.looks++
	call, cancel := context.WithTimeout(ctx, noticeTTL)
	defer cancel()
	return driver.Show(call, g.d.Store, key)
}

// shrink takes the nodes out of a set that are not blocked if all nodes outside of it can go on.
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

// ring returns the nodes of a set that are in the way of self, through others or directly, and in
// whose way self is.
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

// blockers returns the nodes of a set that hold what is in the way of one.
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

// reach returns all nodes that can be reached from one by at least one step.
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
