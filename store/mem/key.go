package mem

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A key is what is known about one key. It exists while it is in use, or its last
// fence is still ahead of the clock.
type key struct {
	claims  []*claim // granted, oldest first
	line    []*claim // waiting, in order
	last    uint64   // the highest fence that was given out or asked for
	watches map[*watch]struct{}
	broken  map[string]broken // by owner, until the claim would have ended
}

// A claim is a granted claim, or a place in line.
type claim struct {
	driver.Request
	fence  uint64
	since  time.Duration // granted or taken
	ends   time.Duration
	placed bool // a place in line
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
	maps.DeleteFunc(k.broken, func(_ string, b broken) bool { return b.ends <= now })
}

// free reports whether r can be granted to an owner at a position in line; -1: with no
// place, which is behind everybody.
func (k *key) free(at int, r driver.Request) bool {
	if at > 0 || at < 0 && len(k.line) > 0 {
		return false
	}
	return k.used()+r.Weight <= r.Limit
}

// again answers an owner that has the claim c already.
func (k *key) again(c *claim, r driver.Request, now time.Duration) driver.Result {
	if !c.kept { // a record lives for as long as it was kept for
		c.ends = after(now, r.TTL)
	}
	c.fence = max(c.fence, r.Floor)
	k.last = max(k.last, c.fence)
	if r.Weight < c.Weight {
		c.Weight = r.Weight
		k.wakeHead()
	}
	return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.line), Age: age(now)}
}

// refuse answers an owner that has to wait, and keeps or gives it a place if it wants one.
func (k *key) refuse(at int, r driver.Request, now time.Duration) driver.Result {
	switch {
	case r.QueueTTL > 0 && at < 0:
		r.Value, r.Meta = slices.Clone(r.Value), maps.Clone(r.Meta)
		at = len(k.line)
		k.line = append(k.line, &claim{Request: r, placed: true, since: now, ends: after(now, r.QueueTTL)})
	case r.QueueTTL > 0:
		r.Value, r.Meta = slices.Clone(r.Value), maps.Clone(r.Meta)
		k.line[at].Request = r
		k.line[at].ends = after(now, r.QueueTTL)
	}
	ahead := len(k.line)
	if at >= 0 {
		ahead = at
	}
	res := driver.Result{Used: k.used(), Ahead: ahead, Age: age(now)}
	if at >= 0 {
		res.Behind = len(k.line) - at - 1
	}
	inWay := k.line[:ahead]
	if res.Used+r.Weight > r.Limit {
		inWay = slices.Concat(k.claims, inWay)
	}
	first := slices.MinFunc(inWay, func(a, b *claim) int { return cmp.Compare(a.ends, b.ends) })
	res.Retry = first.ends - now
	res.Blocker = inWay[0].tell(now)
	return res
}

func (k *key) used() int64 {
	var n int64
	for _, c := range k.claims {
		n += c.Weight
	}
	return n
}

// wakeHead wakes the head of the line if it would be granted now.
func (k *key) wakeHead() {
	if len(k.line) > 0 && k.free(0, k.line[0].Request) {
		head := k.line[0].Owner
		k.wake(func(owner string) bool { return owner == head })
	}
}

// wakeOnlookers wakes those who watch the key without a claim of their own.
func (k *key) wakeOnlookers() { k.wake(func(owner string) bool { return owner == "" }) }

func (k *key) wake(whom func(owner string) bool) {
	for w := range k.watches {
		if whom(w.owner) {
			select {
			case w.wake <- driver.Wake{}:
			default: // it is ready already
			}
		}
	}
}

// tell is what others may know about c.
func (c *claim) tell(now time.Duration) driver.Claim {
	return driver.Claim{
		Key: c.Key, Owner: driver.Tag(c.Owner), Weight: c.Weight, Limit: c.Limit, Fence: c.fence,
		Holder: c.Holder, Task: c.Task, Meta: maps.Clone(c.Meta), Value: slices.Clone(c.Value),
		Held: now - c.since, Left: c.ends - now, Waiting: c.placed, Kept: c.kept,
	}
}

func find(claims []*claim, owner string) *claim {
	if i := slices.IndexFunc(claims, func(c *claim) bool { return c.Owner == owner }); i >= 0 {
		return claims[i]
	}
	return nil
}
