package sqlite

import (
	"cmp"
	sqldriver "database/sql/driver"
	"math"
	"time"
)

// near is how many queue entries before an owner's a call counts. A number of more entries is an
// estimate, so that an attempt costs the same in a queue of any length.
const near = 17

// rows describe the rows of the table entry that belong to a key: all claims but the oldest, and
// the queue.
type rows struct {
	claims, used int64         // the number of claims, and the sum of their weights
	queue, next  int64         // the number of queue entries, and the number for the next one
	ends         time.Duration // none of them ends later; a whole second
}

// enter gives a new claim or queue entry its number, unless it has one from an earlier boot.
func (r *rows) enter(c *claim) {
	switch {
	case !c.waiting():
		c.number = cmp.Or(c.number, int64(c.fence))
	default:
		c.number = cmp.Or(c.number, max(r.next, 1))
		r.next = c.number + 1
	}
	r.add(c, 1)
}

// add counts a claim or a queue entry, n is 1, or no longer counts it, n is -1.
func (r *rows) add(c *claim, n int64) {
	if c.waiting() {
		r.queue += n
	} else {
		r.claims, r.used = r.claims+n, r.used+n*c.weight
	}
	if r.queue+r.claims == 0 {
		*r = rows{}
	}
}

// none reports whether there are no rows.
func (r *rows) none() bool { return r.queue+r.claims == 0 }

// bound returns the whole second after an end. The key's row has to be written when the bound
// changes, and queue entries are refreshed more often than once a second.
func bound(ends time.Duration) time.Duration { return after(ends.Truncate(time.Second), time.Second) }

// put writes a new or changed claim or queue entry. The caller saves the key.
func (k *key) put(c *claim) error {
	if c == k.first || !c.waiting() && k.first == nil && k.rows.claims == 0 {
		k.first = c
		return nil
	}
	if c.stored == 0 {
		k.rows.enter(c)
	}
	_, err := k.t.base.put.exec([]byte(k.name), c.waiting(), c.number, []byte(c.owner), int64(c.ends), c.encode(nil))
	was := c.stored
	c.stored = c.ends
	if err == nil && bound(was) >= k.rows.ends && c.ends < was {
		return k.boundRows()
	}
	k.rows.ends = max(k.rows.ends, bound(c.ends))
	return err
}

// remove removes a claim or a queue entry. The caller saves the key.
func (k *key) remove(c *claim) error {
	if c == k.first {
		k.first = nil
		return nil
	}
	if _, err := k.t.base.remove.exec([]byte(k.name), c.waiting(), c.number); err != nil {
		return err
	}
	k.rows.add(c, -1)
	if k.rows.none() || bound(c.stored) < k.rows.ends {
		return nil
	}
	return k.boundRows()
}

// boundRows computes the bound of all ends.
func (k *key) boundRows() error {
	last, err := k.number(k.t.base.lastEnd)
	k.rows.ends = bound(time.Duration(last))
	return err
}

// expireRows removes the rows that have ended, and reports whether there were any.
func (k *key) expireRows() (ended bool, err error) {
	was := k.rows
	for _, waiting := range []bool{false, true} {
		if !waiting && was.claims == 0 || waiting && was.queue == 0 {
			continue
		}
		err = k.each(k.t.base.expire, func(c *claim) { k.rows.add(c, -1) }, waiting, int64(k.t.now))
		if err != nil {
			return false, err
		}
	}
	return k.rows != was, nil
}

// find returns the claim or the queue entry of an owner, or nil.
func (k *key) find(owner string) (c *claim, err error) {
	switch {
	case k.first != nil && k.first.owner == owner:
		return k.first, nil
	case k.rows.none():
		return c, nil
	}
	return k.one(k.t.base.find, []byte(owner))
}

// oldest returns the oldest claim, or the head of the queue. The caller knows that there is one.
func (k *key) oldest(waiting bool) (*claim, error) {
	if !waiting && k.first != nil {
		return k.first, nil
	}
	c, err := k.one(k.t.base.oldest, waiting)
	if err == nil && c == nil {
		err = errState
	}
	return c, err
}

// firstEnd returns when the first claim ends.
func (k *key) firstEnd() (time.Duration, error) {
	first := time.Duration(math.MaxInt64)
	if k.first != nil {
		first = k.first.ends
	}
	if k.rows.claims == 0 {
		return first, nil
	}
	ends, err := k.number(k.t.base.firstEnd)
	return min(first, time.Duration(ends)), err
}

// A position is the position of an owner in the queue.
type position struct {
	ahead, behind int           // exact up to near, or at least so many
	first         time.Duration // the first end of the entries ahead, if they are fewer than near; 0: unknown
}

// position returns the position of a queue entry; nil: behind all entries.
//
// The numbers of the entries grow by one. So the difference of two numbers is how many entries are
// between them, and at most the missing entries fewer.
func (k *key) position(mine *claim) (position, error) {
	at := position{first: math.MaxInt64}
	if k.rows.queue == 0 {
		return at, nil
	}
	number := k.rows.next
	if mine != nil {
		number = mine.number
	}
	var dest [3]sqldriver.Value
	if _, err := k.t.base.ahead.row(dest[:], []byte(k.name), number); err != nil {
		return at, err
	}
	n, _ := dest[0].(int64)
	ends, _ := dest[1].(int64)
	head, _ := dest[2].(int64)
	switch {
	case n == near:
		at.first = 0
	case n > 0:
		at.first = time.Duration(ends)
	}
	switch {
	case mine == nil:
		at.ahead = int(k.rows.queue)
	case n < near:
		at.ahead, at.behind = int(n), int(k.rows.queue-1-n)
	default:
		missing := k.rows.next - head - k.rows.queue
		at.ahead = int(max(n, number-head-missing))
		behind, err := k.behind(number, k.rows.queue-1-(number-head))
		at.behind = int(behind)
		return at, err
	}
	return at, nil
}

// behind counts the entries behind a number, if fewer than near are known to be there.
func (k *key) behind(number, known int64) (int64, error) {
	if known >= near {
		return known, nil
	}
	return k.number(k.t.base.behind, number)
}

// all returns all claims, oldest first, and then the queue, also those that have ended.
func (k *key) all() ([]*claim, error) {
	claims, err := k.list(false)
	if err != nil || k.rows.queue == 0 {
		return claims, err
	}
	queue, err := k.list(true)
	return append(claims, queue...), err
}

// list returns all claims, oldest first, or the queue.
func (k *key) list(waiting bool) (out []*claim, err error) {
	if !waiting && k.first != nil {
		out = append(out, k.first)
	}
	if k.rows.none() {
		return out, nil
	}
	err = k.each(k.t.base.entries, func(c *claim) { out = append(out, c) }, waiting)
	return out, err
}

// one returns the claim or queue entry that a query returns, or nil.
func (k *key) one(query *stmt, arg sqldriver.Value) (one *claim, err error) {
	err = k.each(query, func(c *claim) { one = c }, arg)
	return one, err
}

// each calls f for each claim or queue entry that a query returns.
func (k *key) each(query *stmt, f func(*claim), args ...sqldriver.Value) error {
	var dest [2]sqldriver.Value
	bad := false
	err := query.rows(dest[:], func() bool {
		number, _ := dest[0].(int64)
		state, _ := dest[1].([]byte)
		r := reader{rest: state}
		c := r.claim()
		if bad = r.bad; bad {
			return false
		}
		c.number, c.stored = number, c.ends
		f(c)
		return true
	}, append([]sqldriver.Value{[]byte(k.name)}, args...)...)
	if err == nil && bad {
		err = errState
	}
	return err
}

// number returns the integer that a query about the key returns.
func (k *key) number(query *stmt, args ...sqldriver.Value) (int64, error) {
	var dest [1]sqldriver.Value
	_, err := query.row(dest[:], append([]sqldriver.Value{[]byte(k.name)}, args...)...)
	n, _ := dest[0].(int64)
	return n, err
}
