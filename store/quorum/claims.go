package quorum

import (
	"bytes"
	"maps"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// claims are the claims that this process requested or renewed, with the request that tops up a
// node that does not have them. A claim is removed when it is refused or released, and some time
// after it has ended.
type claims struct {
	mu    sync.Mutex
	known map[driver.ID]*claim
	old   []driver.ID // the keys of known, in the order in which note examines them
}

// A claim is one claim of this process.
type claim struct {
	r      driver.Request // the first request; without a weight: this process did not request it
	held   bool           // it was granted or renewed
	fence  uint64         // the granted fence; 0: none, or not known
	fences []uint64       // the last fence that each node returned
	ends   time.Time      // when it has certainly ended
}

// sweepStep is how many claims each note examines and, if they have ended, removes. Two are enough:
// the number of ended claims always falls.
const sweepStep = 2

// request records a request, and returns the request to send, which shares no memory with r. If the
// claim is known, the returned request is the first one, with the lower weight, the new TTL, and
// the claim's fence or a higher one as Floor.
func (c *claims) request(r driver.Request, nodes int) (send driver.Request, held bool) {
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

// granted records that a claim is held.
func (c *claims) granted(r driver.Request, fence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.note(r.ID, r.TTL)
	if k.r.Weight == 0 {
		k.r = r
	}
	k.r.Weight = r.Weight // the owner may have lowered it
	k.held, k.fence = true, fence
}

// renewed records that a claim was renewed, and returns the request that tops up a node that does
// not have the claim. The request has no weight if it is not known.
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

// sameFence records the fence that a node returned for a claim, and reports whether the node
// returned the same fence before. If so, the node has kept the claim in between, because a new
// grant has a new fence. A fence from before the claim was granted does not count: the answer may
// belong to an earlier attempt of the same owner, with a fence above those of other owners.
func (c *claims) sameFence(id driver.ID, node int, fence uint64) bool {
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

// isHeld reports whether a claim was granted or renewed, and not released since.
func (c *claims) isHeld(id driver.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[id]
	return k != nil && k.held
}

// live reports whether a claim is still held, as far as this process knows.
func (c *claims) live(id driver.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id] != nil
}

// forget removes a claim.
func (c *claims) forget(id driver.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}

// note records that a claim has a new TTL, and removes a few claims that have ended. The caller
// holds the lock.
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
