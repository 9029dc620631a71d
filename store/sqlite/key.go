package sqlite

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A key is the state of one key in a transaction. The oldest claim is a part of the key's row, so
// that a lock nobody else wants is one row. All other claims and the queue are rows of the table
// entry, and a call reads only those that it needs.
type key struct {
	t         *tx
	name      string
	last      uint64 // the highest fence of a grant, or Floor of a claim
	first     *claim // the oldest claim, if it is in the key's row
	rows      rows   // all other claims, and the queue
	broken    []broken
	observers []observer

	exists   bool   // the key has a row
	wasLast  uint64 // last in that row
	wasState []byte
	wakeups  []wakeup
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

	number int64         // in the table entry
	stored time.Duration // the end in the table entry; 0: it is not there
}

// waiting reports whether c is a queue entry.
func (c *claim) waiting() bool { return c.fence == 0 }

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

// expire removes everything that has ended. If it removes rows of the table entry, it saves the
// key, so that the key's row always counts the rows that exist.
func (k *key) expire() error {
	now := k.t.now
	gone := k.first != nil && k.first.ends <= now
	if gone {
		k.first = nil
	}
	k.broken = slices.DeleteFunc(k.broken, func(b broken) bool { return b.ends <= now })
	k.observers = slices.DeleteFunc(k.observers, func(o observer) bool { return o.ends <= now })
	ended, err := k.expireRows()
	if err != nil || !gone && !ended {
		return err
	}
	k.wakeObservers()
	if err := k.wakeHead(); err != nil || !ended {
		return err
	}
	return k.t.save(k)
}

func (k *key) used() int64 {
	if k.first == nil {
		return k.rows.used
	}
	return k.rows.used + k.first.weight
}

// acquire grants or refuses a claim.
func (k *key) acquire(r driver.Request, socket string) (driver.Result, error) {
	clock := wall()
	if r.Floor > max(clock, k.last)+driver.MaxAhead {
		return driver.Result{}, fmt.Errorf("%w: floor %d is more than an hour ahead", driver.ErrInvalid, r.Floor)
	}
	mine, err := k.find(r.Owner)
	if err != nil {
		return driver.Result{}, err
	}
	if mine != nil && !mine.waiting() {
		return k.again(mine, r)
	}
	at, err := k.position(mine)
	if err != nil {
		return driver.Result{}, err
	}
	if at.ahead > 0 || k.used()+r.Weight > r.Limit {
		return k.refuse(mine, at, r, socket)
	}
	fence := max(k.last+driver.Span, clock, r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	}
	k.last = fence
	if mine != nil {
		if err := k.remove(mine); err != nil {
			return driver.Result{}, err
		}
	}
	c := newClaim(r, k.t.now, r.TTL)
	c.fence = fence
	k.broken = slices.DeleteFunc(k.broken, func(b broken) bool { return b.owner == r.Owner })
	err = cmp.Or(k.put(c), k.wakeHead())
	return driver.Result{Granted: true, Fresh: true, Fence: fence, Used: k.used(), Behind: int(k.rows.queue)}, err
}

// again answers an owner that already has the claim c.
func (k *key) again(c *claim, r driver.Request) (driver.Result, error) {
	if !c.kept() { // a record keeps its own TTL
		c.live(k.t.now, r.TTL)
	}
	c.fence = max(c.fence, r.Floor)
	k.last = max(k.last, c.fence)
	lower := r.Weight < c.weight
	if lower {
		if c != k.first {
			k.rows.used -= c.weight - r.Weight
		}
		c.weight = r.Weight
	}
	err := k.put(c)
	if lower && err == nil {
		err = k.wakeHead()
	}
	return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: int(k.rows.queue)}, err
}

// refuse answers an owner that has to wait. If QueueTTL is set, it adds or renews the queue entry.
func (k *key) refuse(mine *claim, at position, r driver.Request, socket string) (driver.Result, error) {
	res := driver.Result{Used: k.used(), Ahead: at.ahead, Behind: at.behind}
	full := res.Used+r.Weight > r.Limit
	blocker, err := k.oldest(!full)
	if err != nil {
		return driver.Result{}, err
	}
	first := at.first
	if full {
		soon, err := k.firstEnd()
		if err != nil {
			return driver.Result{}, err
		}
		first = min(first, soon)
	}
	res.Blocker = k.describe(blocker, k.t.now)
	res.Retry = max(first-k.t.now, 0)
	if r.QueueTTL == 0 {
		return res, nil
	}
	entry := newClaim(r, k.t.now, r.QueueTTL)
	entry.socket = socket
	if mine != nil {
		entry.since, entry.number, entry.stored = mine.since, mine.number, mine.stored
	}
	return res, k.put(entry)
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
func (k *key) wakeHead() error {
	if k.rows.queue == 0 || k.used() >= driver.Whole {
		return nil
	}
	head, err := k.oldest(true)
	if err == nil && k.used()+head.weight <= head.limit {
		k.wake(head)
	}
	return err
}

// handOver is wakeHead after the end of a claim. A head that a watcher of this process waits for is
// granted its claim, for the time that is left of its queue entry: the watcher need not make an
// attempt, which with synchronous=FULL waits for the disk once more. For the watchers of other
// processes the message would have to carry the grant.
func (k *key) handOver(watched func(driver.ID) bool) error {
	for k.rows.queue > 0 && k.used() < driver.Whole {
		head, err := k.oldest(true)
		if err != nil || k.used()+head.weight > head.limit {
			return err
		}
		id := driver.ID{Key: k.name, Owner: head.owner}
		fence := max(k.last+driver.Span, wall())
		if fence > driver.MaxFence-driver.Span || !watched(id) {
			k.wake(head)
			return nil
		}
		if err := k.remove(head); err != nil {
			return err
		}
		k.last, head.fence, head.since = fence, fence, k.t.now
		head.socket, head.number, head.stored = "", 0, 0
		k.broken = slices.DeleteFunc(k.broken, func(b broken) bool { return b.owner == head.owner })
		if err := k.put(head); err != nil {
			return err
		}
		k.wakeups = append(k.wakeups, wakeup{hint: ownerHint(id.Owner), pushed: &pushed{
			id, driver.Wake{Granted: true, Fence: fence, Behind: int(k.rows.queue)},
		}})
	}
	return nil
}

func (k *key) wake(entry *claim) {
	k.wakeups = append(k.wakeups, wakeup{socket: entry.socket, hint: ownerHint(entry.owner)})
}

// wakeObservers wakes the watchers that have no owner.
func (k *key) wakeObservers() {
	k.wakeups = append(k.wakeups, wakeup{hint: keyHint(k.name)}) // observers in this process need no entry
	for _, o := range k.observers {
		k.wakeups = append(k.wakeups, wakeup{socket: o.socket, hint: keyHint(k.name)})
	}
}

// describe returns the public part of c: the owner's tag instead of the owner.
func (k *key) describe(c *claim, now time.Duration) driver.Claim {
	return driver.Claim{
		Key: k.name, Owner: driver.Tag(c.owner), Weight: c.weight, Limit: c.limit, Fence: c.fence,
		Holder: c.holder, Task: c.task, Meta: maps.Clone(c.meta), Value: slices.Clone(c.value),
		Held: now - c.since, Left: c.ends - now, Waiting: c.waiting(), Kept: c.kept(),
	}
}

// describeAll returns the public parts of all claims and queue entries that have not ended.
func (k *key) describeAll() ([]driver.Claim, error) {
	all, err := k.all()
	var out []driver.Claim
	for _, c := range all {
		if c.ends > k.t.now {
			out = append(out, k.describe(c, k.t.now))
		}
	}
	return out, err
}
