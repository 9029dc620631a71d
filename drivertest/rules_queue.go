package drivertest

import (
	"math"

	"github.com/distlock/distlock/driver"
)

// queueRules state how claims wait. A store may grant the head at the moment of a release, or at
// the head's next attempt. Between the two, the rules check only what holds for both.
func queueRules() []rule {
	return []rule{
		{
			name:     "queue",
			sentence: "entries form a queue in order of arrival",
			needs:    queue,
			check: func(p *probe) {
				a, ws := p.waiters(3)
				for _, w := range ws {
					p.release(a.ID, nil)
					for i := len(ws) - 1; ws[i].ID != w.ID; i-- {
						p.refuse(ws[i])
					}
					p.grant(w)
					a = w
				}
				p.release(a.ID, nil)
				p.release(a.ID, driver.ErrNotHeld)
				p.grant(p.exclusive())
			},
		},
		{
			name: "no overtaking",
			sentence: "while another entry is before it, a claim is refused even if there is " +
				"capacity for it",
			needs: queue,
			check: func(p *probe) {
				r, w, late := p.shared(), queued(p.exclusive(), p.long), queued(p.shared(), p.long)
				p.grant(r)
				p.refuse(w)
				res := p.refuse(p.shared())
				p.equal("ahead, without an entry", res.Ahead, 1)
				p.equal("the blocker waits", res.Blocker.Waiting, true)
				p.equal("ahead, with an entry", p.refuse(late).Ahead, 1)
				p.release(r.ID, nil)
				p.refuse(p.shared())
				p.refuse(p.exclusive())
				p.refuse(late)
				p.grant(w)
				p.release(w.ID, nil)
				p.grant(late)
				p.grant(p.shared())
			},
		},
		{
			name:     "readers",
			sentence: "claims at the head that fit together are granted together",
			needs:    queue,
			check: func(p *probe) {
				w := p.exclusive()
				p.grant(w)
				var rs []driver.Request
				for range 5 {
					rs = append(rs, queued(p.shared(), p.long))
					p.refuse(rs[len(rs)-1])
				}
				w2 := queued(p.exclusive(), p.long)
				p.refuse(w2)
				p.release(w.ID, nil)
				for _, r := range rs {
					p.grant(r)
				}
				p.equal("used", p.refuse(w2).Used, int64(len(rs)))
				for _, r := range rs {
					p.refuse(w2)
					p.release(r.ID, nil)
				}
				p.grant(w2)
			},
		},
		{
			name:     "withdrawn entry",
			sentence: "a withdrawn entry is gone, and the entries behind it move up",
			needs:    queue,
			check: func(p *probe) {
				a, ws := p.waiters(3)
				p.release(ws[1].ID, nil)
				p.release(ws[1].ID, driver.ErrNotHeld)
				p.equal("ahead", p.refuse(ws[2]).Ahead, 1)
				p.release(ws[0].ID, nil)
				p.equal("ahead", p.refuse(ws[2]).Ahead, 0)
				p.equal("behind", p.renew(a.ID, p.long, nil, nil), 1)
				p.release(ws[2].ID, nil)
				p.release(a.ID, nil)
				p.grant(p.exclusive())
			},
		},
		{
			name:     "withdrawn head",
			sentence: "when the head withdraws, the next entries that fit are granted",
			needs:    queue,
			check: func(p *probe) {
				r, w, r2 := p.shared(), queued(p.exclusive(), p.long), queued(p.shared(), p.long)
				p.grant(r)
				p.refuse(w)
				p.refuse(r2)
				p.release(w.ID, nil)
				p.grant(r2)
			},
		},
		{
			name:     "entry is no claim",
			sentence: "a queue entry cannot be renewed as a claim, and takes no capacity",
			needs:    queue,
			check: func(p *probe) {
				a, ws := p.waiters(1)
				p.renew(ws[0].ID, p.long, nil, driver.ErrNotHeld)
				p.equal("used", p.refuse(ws[0]).Used, driver.Whole)
				p.equal("used", p.grant(a).Used, driver.Whole)
			},
		},
		{
			name:     "no QueueTTL",
			sentence: "an attempt with QueueTTL 0 neither adds nor removes an entry",
			needs:    queue,
			check: func(p *probe) {
				a, ws := p.waiters(2)
				b := p.exclusive()
				res := p.refuse(b)
				p.equal("ahead", res.Ahead, 2)
				p.equal("behind, without an entry", res.Behind, 0)
				p.release(b.ID, driver.ErrNotHeld)
				p.equal("ahead", p.refuse(queued(ws[0], 0)).Ahead, 0)
				p.equal("ahead", p.refuse(ws[1]).Ahead, 1)
				p.release(a.ID, nil)
				p.refuse(ws[1])
				p.grant(queued(ws[0], 0))
			},
		},
		{
			name: "entry as it was",
			sentence: "an attempt with QueueTTL 0 changes neither the data nor the life of its " +
				"owner's entry",
			needs: queue,
			check: func(p *probe) {
				r1, r2, w := p.shared(), p.shared(), queued(p.exclusive(), p.ttl)
				w.Holder, w.Task = "host-1", "task-1"
				p.grant(r1)
				p.grant(r2)
				p.refuse(w)
				born := p.last
				again := queued(w, 0)
				again.Weight, again.Holder, again.Task = driver.Whole-1, "host-2", "task-2"
				p.wait(0.5)
				p.while(born, p.ttl, func() {
					p.refuse(again)
					p.same(p.refuse(p.shared()).Blocker, w)
					if p.has(show) {
						p.same(p.shows(r1, r2, w)[2], w)
					}
				})
				p.grantAfter(p.shared(), born, p.ttl)
			},
		},
		{
			name:     "expired entry",
			sentence: "an entry that is not refreshed in time drops out",
			needs:    queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				dead, live := queued(p.exclusive(), p.ttl), queued(p.exclusive(), p.long)
				p.refuse(dead)
				born := p.last
				p.while(born, p.ttl, func() { p.equal("ahead", p.refuse(live).Ahead, 1) })
				p.release(a.ID, nil)
				p.grantAfter(live, born, p.ttl)
				p.release(dead.ID, driver.ErrNotHeld)

				p.refuse(queued(p.exclusive(), p.ttl))
				born = p.last
				p.refuse(queued(p.exclusive(), p.ttl))
				last := p.last
				p.while(born, p.ttl, func() { p.equal("behind", p.grant(live).Behind, 2) })
				p.release(live.ID, nil)
				p.grantAfter(p.exclusive(), last, p.ttl)

				w := queued(p.exclusive(), p.ttl)
				p.refuse(w)
				p.outlive(p.last, p.ttl)
				p.release(w.ID, driver.ErrNotHeld) // though nobody has used the key meanwhile
			},
		},
		{
			name:     "refreshed entry",
			sentence: "an entry that is refreshed in time keeps its position",
			needs:    queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				w1, w2 := queued(p.exclusive(), p.ttl), queued(p.exclusive(), p.ttl)
				p.refuse(w1)
				born := p.last
				p.refuse(w2)
				for range 3 {
					p.wait(0.5)
					p.while(born, p.ttl, func() {
						p.equal("ahead of the second", p.refuse(w2).Ahead, 1)
						born = p.last
						p.equal("ahead of the first", p.refuse(w1).Ahead, 0)
					})
				}
				p.while(born, p.ttl, func() {
					p.equal("behind", p.grant(a).Behind, 2)
					p.release(a.ID, nil)
					p.refuse(w2)
					p.grant(w1)
				})
			},
		},
		{
			name:     "shortened entry",
			sentence: "an entry lives for the QueueTTL of the last attempt",
			needs:    queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				w := queued(p.exclusive(), p.long)
				p.refuse(w)
				p.refuse(queued(w, p.ttl))
				born := p.last
				p.release(a.ID, nil)
				p.grantAfter(p.exclusive(), born, p.ttl)
			},
		},
		{
			name:     "entry of last attempt",
			sentence: "an entry holds the data of its owner's last attempt",
			needs:    queue,
			check: func(p *probe) {
				r1, r2, w := p.shared(), p.shared(), queued(p.exclusive(), p.long)
				p.grant(r1)
				p.grant(r2)
				p.refuse(w)
				w.Weight, w.Holder, w.Task = driver.Whole-1, "needs less", "task-2"
				if p.has(value) {
					w.Value, w.Meta = []byte("new"), map[string]string{"k": "new"}
				}
				p.refuse(w)
				p.same(p.refuse(p.shared()).Blocker, w)
				if p.has(show) {
					p.same(p.shows(r1, r2, w)[2], w)
				}
				var c <-chan driver.Wake
				if p.has(watch) {
					c = p.watch(w.ID)
					p.settle(c)
				}
				p.release(r1.ID, nil)
				if p.has(watch) {
					p.woken(c, "the head, which needs less now,")
				}
				p.equal("used", p.grant(w).Used, driver.Whole)
			},
		},
		{
			name: "limit of last attempt",
			sentence: "the head of the queue is granted by the limit of its attempt, not by " +
				"that of its entry",
			needs: queue | count,
			check: func(p *probe) {
				a, b, w := p.request(3, 5), p.request(2, 5), queued(p.request(2, 5), p.long)
				p.grant(a)
				p.grant(b)
				p.refuse(w)
				p.release(b.ID, nil)
				if p.refuse(p.slot(5)).Used == 5 {
					return // the store granted the head what its entry holds
				}
				w.Limit = 4
				p.refuse(w)
				w.Limit = 5
				p.equal("used", p.grant(w).Used, int64(5))
			},
		},
		{
			name: "claim behind the head",
			sentence: "a claim granted together with the entry before it holds the data of its " +
				"owner's last attempt",
			needs: queue | expiry | show,
			check: func(p *probe) {
				a, head, w := p.short(p.exclusive()), queued(p.shared(), p.long), queued(p.shared(), p.long)
				p.grant(a)
				born := p.last
				p.while(born, a.TTL, func() {
					p.refuse(head)
					p.refuse(w)
				})
				p.outlive(born, a.TTL)
				w.Holder, w.Task = "host-2", "task-2"
				p.attempt(w)
				p.grant(head)
				p.grant(w)
				p.same(p.shows(head, w)[1], w)
			},
		},
		{
			name:     "claim of last attempt",
			sentence: "a claim granted from the queue holds the data of its owner's last attempt",
			needs:    queue,
			check: func(p *probe) {
				a, w := p.exclusive(), queued(p.exclusive(), p.long)
				change := func(n string) {
					w.Holder, w.Task = "host-"+n, "task-"+n
					if p.has(value) {
						w.Value, w.Meta = []byte(n), map[string]string{"k": n}
					}
				}
				p.grant(a)
				change("1")
				p.refuse(w)
				change("2")
				p.refuse(w)
				p.release(a.ID, nil)
				if p.refuse(p.exclusive()).Used == 0 { // else the store granted what the entry holds
					change("3")
					w.Weight = driver.Whole - 1
				}
				p.grant(w)
				w.QueueTTL = 0
				p.visible(w)
			},
		},
		{
			name:     "huge QueueTTL",
			sentence: "an entry lives for its QueueTTL, however long that is",
			needs:    queue,
			check: func(p *probe) {
				a, w := p.exclusive(), queued(p.exclusive(), math.MaxInt64)
				p.wait(0.5) // the store's clock is not at 0
				p.grant(a)
				p.refuse(w)
				p.wait(0.5)
				p.equal("ahead", p.refuse(p.exclusive()).Ahead, 1)
				p.release(a.ID, nil)
				p.refuse(p.exclusive())
				p.grant(w)
			},
		},
		{
			name:     "ahead and behind",
			sentence: "an answer reports how many entries are before the owner and behind it",
			needs:    queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.equal("behind, with no queue", p.grant(a).Behind, 0)
				p.equal("behind, renewed, with no queue", p.renew(a.ID, p.long, nil, nil), 0)
				ws := p.join(4)
				for i, w := range ws {
					res := p.refuse(w)
					p.equal("ahead", res.Ahead, i)
					p.equal("behind", res.Behind, len(ws)-1-i)
				}
				p.equal("behind, granted again", p.grant(a).Behind, 4)
				p.equal("behind, renewed", p.renew(a.ID, p.long, nil, nil), 4)
				p.release(a.ID, nil)
				p.equal("behind, granted from the queue", p.grant(ws[0]).Behind, 3)
			},
		},
	}
}

// waiters grants a claim, and adds n queue entries that wait for it.
func (p *probe) waiters(n int) (holder driver.Request, waiters []driver.Request) {
	holder = p.exclusive()
	p.grant(holder)
	return holder, p.join(n)
}

// join adds entries of n exclusive claims to an empty queue.
func (p *probe) join(n int) (waiters []driver.Request) {
	for i := range n {
		w := queued(p.exclusive(), p.long)
		res := p.refuse(w)
		p.equal("ahead, on arrival", res.Ahead, i)
		p.equal("behind, on arrival", res.Behind, 0)
		waiters = append(waiters, w)
	}
	return waiters
}
