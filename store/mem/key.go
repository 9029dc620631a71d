package mem

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A key is the state of one key. It exists while it is in use, or while its last fence is ahead of
// the clock.
type key struct {
	claims  []*claim // granted, oldest first
	queue   []*claim // waiting, in order
	last    uint64   // the highest fence of a grant, or Floor of a claim
	watches map[*watch]struct{}
	broken  map[string]broken // by owner, until the claim would have ended
}

// A claim is a granted claim or a queue entry.
type claim struct {
	driver.Request
	fence  uint64
	since  time.Duration // when it was granted or queued
	ends   time.Duration
	queued bool // a queue entry
	kept   bool
}

type broken struct {
	reason string
	ends   time.Duration
}

type watch struct {
	owner string
	wake  chan driver.Wake
}

// expire removes the claims, queue entries and broken claims that have ended.
func (k *key) expire(now time.Duration) {
	ended := func(c *claim) bool { return c.ends <= now }
	before := len(k.claims) + len(k.queue)
	k.claims = slices.DeleteFunc(k.claims, ended)
	k.queue = slices.DeleteFunc(k.queue, ended)
	if len(k.claims)+len(k.queue) < before {
		k.wakeObservers()
		k.wakeHead()
	}
	maps.DeleteFunc(k.broken, func(_ string, b broken) bool { return b.ends <= now })
}

// free reports whether r can be granted to an owner at a position in the queue; -1: the owner has
// no queue entry and comes after all entries.
func (k *key) free(at int, r driver.Request) bool {
	if at > 0 || at < 0 && len(k.queue) > 0 {
		return false
	}
	return k.used()+r.Weight <= r.Limit
}

// again answers an owner that already has the claim c.
func (k *key) again(c *claim, r driver.Request, now time.Duration) driver.Result {
	if !c.kept { // a record keeps its own TTL
		c.ends = after(now, r.TTL)
	}
	c.fence = max(c.fence, r.Floor)
	k.last = max(k.last, c.fence)
	if r.Weight < c.Weight {
		c.Weight = r.Weight
		k.wakeHead()
	}
	return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.queue), Age: age(now)}
}

// refuse answers an owner that has to wait. If QueueTTL is set, it adds or renews the queue entry.
func (k *key) refuse(at int, r driver.Request, now time.Duration) driver.Result {
	switch {
	case r.QueueTTL > 0 && at < 0:
		r.Value, r.Meta = slices.Clone(r.Value), maps.Clone(r.Meta)
		at = len(k.queue)
		k.queue = append(k.queue, &claim{Request: r, queued: true, since: now, ends: after(now, r.QueueTTL)})
	case r.QueueTTL > 0:
		r.Value, r.Meta = slices.Clone(r.Value), maps.Clone(r.Meta)
		k.queue[at].Request = r
		k.queue[at].ends = after(now, r.QueueTTL)
	}
	ahead := len(k.queue)
	if at >= 0 {
		ahead = at
	}
	res := driver.Result{Used: k.used(), Ahead: ahead, Age: age(now)}
	if at >= 0 {
		res.Behind = len(k.queue) - at - 1
	}
	blockers := k.queue[:ahead]
	if res.Used+r.Weight > r.Limit {
		blockers = slices.Concat(k.claims, blockers)
	}
	first := slices.MinFunc(blockers, func(a, b *claim) int { return cmp.Compare(a.ends, b.ends) })
	res.Retry = first.ends - now
	res.Blocker = blockers[0].describe(now)
	return res
}

func (k *key) used() int64 {
	var n int64
	for _, c := range k.claims {
		n += c.Weight
	}
	return n
}

// wakeHead wakes the head of the queue if it would be granted now.
func (k *key) wakeHead() {
	if len(k.queue) > 0 && k.free(0, k.queue[0].Request) {
		head := k.queue[0].Owner
		k.wake(func(owner string) bool { return owner == head })
	}
}

// wakeObservers wakes the watchers that have no owner.
func (k *key) wakeObservers() { k.wake(func(owner string) bool { return owner == "" }) }

func (k *key) wake(match func(owner string) bool) {
	for w := range k.watches {
		if match(w.owner) {
			select {
			case w.wake <- driver.Wake{}:
			default: // the channel is already ready
			}
		}
	}
}

// describe returns the public part of c: the owner's tag instead of the owner.
func (c *claim) describe(now time.Duration) driver.Claim {
	return driver.Claim{
		Key: c.Key, Owner: driver.Tag(c.Owner), Weight: c.Weight, Limit: c.Limit, Fence: c.fence,
		Holder: c.Holder, Task: c.Task, Meta: maps.Clone(c.Meta), Value: slices.Clone(c.Value),
		Held: now - c.since, Left: c.ends - now, Waiting: c.queued, Kept: c.kept,
	}
}

func find(claims []*claim, owner string) *claim {
	if i := slices.IndexFunc(claims, func(c *claim) bool { return c.Owner == owner }); i >= 0 {
		return claims[i]
	}
	return nil
}
