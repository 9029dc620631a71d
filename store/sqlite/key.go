package sqlite

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A key is the state of one key, read from its row in a transaction.
type key struct {
	name      string
	last      uint64   // the highest fence of a grant, or Floor of a claim
	claims    []*claim // granted, oldest first
	queue     []*claim // waiting, in order
	broken    []broken
	observers []observer

	exists  bool // the key has a row
	wakeups []wakeup
}

// A claim is a granted claim or a queue entry.
type claim struct {
	owner, holder, task string
	weight, limit       int64
	fence               uint64        // 0 for a queue entry
	since, ends         time.Duration // when it was granted or queued, and when it ends
	ttl                 time.Duration // its life from the last call on
	until               int64         // the end of a record by the time of day, in ns; 0: not a record
	socket              string        // of the owner's process, for a queue entry
	meta                map[string]string
	value               []byte
}

// kept reports whether c is a record.
func (c *claim) kept() bool { return c.until != 0 }

// keep makes c a record.
func (c *claim) keep() {
	now := time.Now().UnixNano()
	c.until = max(now+min(int64(c.ttl), math.MaxInt64-now), 1)
}

// live gives c a new life.
func (c *claim) live(now, ttl time.Duration) { c.ends, c.ttl = after(now, ttl), ttl }

type broken struct {
	owner, reason string
	ends          time.Duration
}

type observer struct {
	socket string
	ends   time.Duration
}

// expire removes all entries that have ended.
func (k *key) expire(now time.Duration) {
	ended := func(c *claim) bool { return c.ends <= now }
	before := len(k.claims) + len(k.queue)
	k.claims = slices.DeleteFunc(k.claims, ended)
	k.queue = slices.DeleteFunc(k.queue, ended)
	if len(k.claims)+len(k.queue) < before {
		k.wakeObservers()
		k.wakeHead()
	}
	k.broken = slices.DeleteFunc(k.broken, func(b broken) bool { return b.ends <= now })
	k.observers = slices.DeleteFunc(k.observers, func(o observer) bool { return o.ends <= now })
}

// free reports whether a claim can be granted to an owner at a position in the queue; -1: the owner
// has no queue entry and comes after all entries.
func (k *key) free(at int, weight, limit int64) bool {
	if at > 0 || at < 0 && len(k.queue) > 0 {
		return false
	}
	return k.used()+weight <= limit
}

func (k *key) used() int64 {
	var n int64
	for _, c := range k.claims {
		n += c.weight
	}
	return n
}

// again answers an owner that already has the claim c.
func (k *key) again(c *claim, r driver.Request, now time.Duration) driver.Result {
	if !c.kept() { // a record keeps its own TTL
		c.live(now, r.TTL)
	}
	c.fence = max(c.fence, r.Floor)
	k.last = max(k.last, c.fence)
	if r.Weight < c.weight {
		c.weight = r.Weight
		k.wakeHead()
	}
	return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.queue)}
}

// refuse answers an owner that has to wait. If QueueTTL is set, it adds or renews the queue entry.
func (k *key) refuse(at int, r driver.Request, socket string, now time.Duration) driver.Result {
	if r.QueueTTL > 0 {
		entry := newClaim(r, now, r.QueueTTL)
		entry.socket = socket
		if at < 0 {
			at = len(k.queue)
			k.queue = append(k.queue, entry)
		} else {
			entry.since = k.queue[at].since
			k.queue[at] = entry
		}
	}
	res := driver.Result{Used: k.used(), Ahead: len(k.queue)}
	if at >= 0 {
		res.Ahead, res.Behind = at, len(k.queue)-at-1
	}
	blockers := k.queue[:res.Ahead]
	if res.Used+r.Weight > r.Limit {
		blockers = slices.Concat(k.claims, blockers)
	}
	first := slices.MinFunc(blockers, func(a, b *claim) int { return cmp.Compare(a.ends, b.ends) })
	res.Retry = first.ends - now
	res.Blocker = k.describe(blockers[0], now)
	return res
}

// newClaim returns a claim or a queue entry for a request.
func newClaim(r driver.Request, now, life time.Duration) *claim {
	c := &claim{
		owner: r.Owner, holder: r.Holder, task: r.Task, weight: r.Weight, limit: r.Limit,
		since: now, meta: r.Meta, value: r.Value,
	}
	c.live(now, life)
	return c
}

// after returns the end of a life that begins now. If the clock cannot represent it, after returns
// the end of the clock, 292 years from the boot.
func after(now, life time.Duration) time.Duration {
	return now + min(life, math.MaxInt64-now)
}

// wakeHead wakes the head of the queue if it would be granted now.
func (k *key) wakeHead() {
	if len(k.queue) > 0 && k.free(0, k.queue[0].weight, k.queue[0].limit) {
		k.wake(k.queue[0])
	}
}

func (k *key) wake(entry *claim) {
	k.wakeups = append(k.wakeups, wakeup{entry.socket, ownerHint(entry.owner)})
}

// wakeObservers wakes the watchers that have no owner.
func (k *key) wakeObservers() {
	k.wakeups = append(k.wakeups, wakeup{"", keyHint(k.name)}) // observers in this process need no entry
	for _, o := range k.observers {
		k.wakeups = append(k.wakeups, wakeup{o.socket, keyHint(k.name)})
	}
}

// describe returns the public part of c: the owner's tag instead of the owner.
func (k *key) describe(c *claim, now time.Duration) driver.Claim {
	return driver.Claim{
		Key: k.name, Owner: driver.Tag(c.owner), Weight: c.weight, Limit: c.limit, Fence: c.fence,
		Holder: c.holder, Task: c.task, Meta: maps.Clone(c.meta), Value: slices.Clone(c.value),
		Held: now - c.since, Left: c.ends - now, Waiting: c.fence == 0, Kept: c.kept(),
	}
}

func (k *key) all(now time.Duration) []driver.Claim {
	var out []driver.Claim
	for _, c := range slices.Concat(k.claims, k.queue) {
		out = append(out, k.describe(c, now))
	}
	return out
}

func find(claims []*claim, owner string) int {
	return slices.IndexFunc(claims, func(c *claim) bool { return c.owner == owner })
}
