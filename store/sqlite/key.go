package sqlite

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A key is what is known about one key, read from its row in a transaction.
type key struct {
	name      string
	last      uint64   // the highest fence that was given out or asked for
	claims    []*claim // granted, oldest first
	line      []*claim // waiting, in order
	broken    []broken
	onlookers []onlooker

	there bool // the key has a row
	pokes []poke
}

// A claim is a granted claim, or a place in line.
type claim struct {
	owner, holder, party string
	weight, limit        int64
	fence                uint64        // 0 for a place
	since, ends          time.Duration // granted or taken, and over
	kept                 bool
	socket               string // where the owner's process is told, for a place
	meta                 map[string]string
	value                []byte
}

type broken struct {
	owner, reason string
	ends          time.Duration
}

type onlooker struct {
	socket string
	ends   time.Duration
}

// expire drops what has ended.
func (k *key) expire(now time.Duration) {
	over := func(c *claim) bool { return c.ends <= now }
	before := len(k.claims) + len(k.line)
	k.claims = slices.DeleteFunc(k.claims, over)
	k.line = slices.DeleteFunc(k.line, over)
	if len(k.claims)+len(k.line) < before {
		k.wakeOnlookers()
		k.wakeHead()
	}
	k.broken = slices.DeleteFunc(k.broken, func(b broken) bool { return b.ends <= now })
	k.onlookers = slices.DeleteFunc(k.onlookers, func(o onlooker) bool { return o.ends <= now })
}

// free reports whether a claim can be granted to an owner at a position in line; -1: with no
// place, which is behind everybody.
func (k *key) free(at int, weight, limit int64) bool {
	if at > 0 || at < 0 && len(k.line) > 0 {
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

// again answers an owner that has the claim c already.
func (k *key) again(c *claim, r driver.Request, now time.Duration) driver.Result {
	if !c.kept { // a record lives for as long as it was kept for
		c.ends = after(now, r.TTL)
	}
	c.fence = max(c.fence, r.Floor)
	k.last = max(k.last, c.fence)
	if r.Weight < c.weight {
		c.weight = r.Weight
		k.wakeHead()
	}
	return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.line)}
}

// refuse answers an owner that has to wait, and keeps or gives it a place if it wants one.
func (k *key) refuse(at int, r driver.Request, socket string, now time.Duration) driver.Result {
	if r.QueueTTL > 0 {
		place := made(r, now, r.QueueTTL)
		place.socket = socket
		if at < 0 {
			at = len(k.line)
			k.line = append(k.line, place)
		} else {
			place.since = k.line[at].since
			k.line[at] = place
		}
	}
	res := driver.Result{Used: k.used(), Ahead: len(k.line)}
	if at >= 0 {
		res.Ahead, res.Behind = at, len(k.line)-at-1
	}
	inWay := k.line[:res.Ahead]
	if res.Used+r.Weight > r.Limit {
		inWay = slices.Concat(k.claims, inWay)
	}
	first := slices.MinFunc(inWay, func(a, b *claim) int { return cmp.Compare(a.ends, b.ends) })
	res.Retry = first.ends - now
	res.Blocker = k.tell(inWay[0], now)
	return res
}

// made is a claim or place for what was asked.
func made(r driver.Request, now, life time.Duration) *claim {
	return &claim{
		owner: r.Owner, holder: r.Holder, party: r.Task, weight: r.Weight, limit: r.Limit,
		since: now, ends: after(now, life), meta: r.Meta, value: r.Value,
	}
}

// after is when something ends that lives for life from now on. A life that the clock cannot
// hold ends with the clock, 292 years from the boot.
func after(now, life time.Duration) time.Duration {
	return now + min(life, math.MaxInt64-now)
}

// wakeHead wakes the head of the line if it would be granted now.
func (k *key) wakeHead() {
	if len(k.line) > 0 && k.free(0, k.line[0].weight, k.line[0].limit) {
		k.wake(k.line[0])
	}
}

func (k *key) wake(place *claim) {
	k.pokes = append(k.pokes, poke{place.socket, ownerNews(place.owner)})
}

// wakeOnlookers wakes those who watch the key without a claim of their own.
func (k *key) wakeOnlookers() {
	k.pokes = append(k.pokes, poke{"", keyNews(k.name)}) // those of this process need no entry
	for _, o := range k.onlookers {
		k.pokes = append(k.pokes, poke{o.socket, keyNews(k.name)})
	}
}

// tell is what others may know about c.
func (k *key) tell(c *claim, now time.Duration) driver.Claim {
	return driver.Claim{
		Key: k.name, Owner: driver.Tag(c.owner), Weight: c.weight, Limit: c.limit, Fence: c.fence,
		Holder: c.holder, Task: c.party, Meta: maps.Clone(c.meta), Value: slices.Clone(c.value),
		Held: now - c.since, Left: c.ends - now, Waiting: c.fence == 0, Kept: c.kept,
	}
}

func (k *key) all(now time.Duration) []driver.Claim {
	var out []driver.Claim
	for _, c := range slices.Concat(k.claims, k.line) {
		out = append(out, k.tell(c, now))
	}
	return out
}

func find(claims []*claim, owner string) int {
	return slices.IndexFunc(claims, func(c *claim) bool { return c.owner == owner })
}
