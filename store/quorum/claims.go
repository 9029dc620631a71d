package quorum

import (
	"bytes"
	"maps"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// claims are those that this process asked for or renewed, with what is needed to ask a
// node for them that has none. They are forgotten when they are refused or released, and some time after they
// have ended.
type claims struct {
	mu    sync.Mutex
	known map[driver.ID]*claim
	old   []driver.ID // of known, in the order in which sweep looks at them
}

// A claim is one of them.
type claim struct {
	r      driver.Request // as it was asked for first; without a weight: it was not asked for here
	held   bool           // it was granted, or renewed
	fence  uint64         // that was granted; 0: none, or not known
	fences []uint64       // that each node has told last
	ends   time.Time      // when it is surely over
}

// sweepStep is how many claims are looked at for one that is noted. Two are enough: those that
// are over always grow fewer.
const sweepStep = 2

// ask notes what is asked for, and fills it in, with nothing of the caller's in it. If the claim is held, that is
// what was asked for first, for less weight if that is wanted, and with its fence or more.
func (c *claims) ask(r driver.Request, nodes int) (ask driver.Request, held bool) {
	r.Value, r.Meta = bytes.Clone(r.Value), maps.Clone(r.Meta)
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[r.ID]
	if k == nil || time.Now().After(k.ends) {
		delete(c.known, r.ID)
		k = c.note(r.ID, r.TTL)
		k.r, k.fences = r, make([]uint64, nodes)
		return r, false
	}
	floor := max(k.fence, r.Floor)
	if k.r.Weight > 0 {
		weight, ttl := min(k.r.Weight, r.Weight), r.TTL
		r = k.r
		r.Weight, r.TTL = weight, ttl
	}
	r.Floor = floor
	return r, k.held
}

// granted notes that a claim is held.
func (c *claims) granted(r driver.Request, fence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.note(r.ID, r.TTL)
	if k.r.Weight == 0 {
		k.r = r
	}
	k.r.Weight = r.Weight // it may have been lowered
	k.held, k.fence = true, fence
}

// renewed notes that a claim was renewed, and returns what to ask nodes for that have none of it;
// without a weight if that is not known.
func (c *claims) renewed(r driver.Renewal) (top driver.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.note(r.ID, r.TTL)
	k.held = true
	if r.Value != nil {
		k.r.Value = r.Value
	}
	top = k.r
	top.TTL, top.Floor = r.TTL, k.fence
	return top
}

// told notes the fence that a node has for a claim, and reports whether it is what it told before: then it
// has kept the claim all the while, for a new grant has new fences. What it told of a claim that was not granted
// yet does not count: the answer may be to an earlier try of the same owner, and its fence is above those of others.
func (c *claims) told(id driver.ID, node int, fence uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[id]
	if k == nil || k.fences == nil {
		return false
	}
	same := k.held && k.fences[node] == fence
	k.fences[node] = fence
	return same
}

// live reports whether a claim is still held, as far as is known here.
func (c *claims) live(id driver.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id] != nil
}

// forget forgets a claim.
func (c *claims) forget(id driver.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}

// note notes that a claim has a new TTL, and forgets a few that are over. The lock is held.
func (c *claims) note(id driver.ID, ttl time.Duration) *claim {
	now := time.Now()
	k := c.known[id]
	if k == nil {
		if c.known == nil {
			c.known = map[driver.ID]*claim{}
		}
		k = &claim{}
		c.known[id] = k
		c.old = append(c.old, id)
	}
	k.ends = now.Add(2 * ttl)
	for range min(sweepStep, len(c.old)) {
		id := c.old[0]
		c.old = c.old[1:]
		switch k := c.known[id]; {
		case k == nil:
		case k.ends.Before(now):
			delete(c.known, id)
		default:
			c.old = append(c.old, id)
		}
	}
	return k
}
