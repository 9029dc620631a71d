package drivertest

import (
	"math"

	"github.com/distlock/distlock/driver"
)

// lineLaws say how claims wait. A store may grant the head at the moment of a release
// or leave it to the head's next ask: between the two only what holds for both is asked.
func lineLaws() []law {
	return []law{
		{"queue", "places form a line in order of arrival", queue, func(p *probe) {
			a, ws := p.line(3)
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
		}},
		{"nobody passes", "while anyone stands in line before it, a claim is refused even if there is room for it", queue, func(p *probe) {
			r, w, late := p.shared(), placed(p.exclusive(), p.long), placed(p.shared(), p.long)
			p.grant(r)
			p.refuse(w)
			res := p.refuse(p.shared())
			p.equal("ahead, without a place", res.Ahead, 1)
			p.equal("the blocker waits", res.Blocker.Waiting, true)
			p.equal("ahead, with a place", p.refuse(late).Ahead, 1)
			p.release(r.ID, nil)
			p.refuse(p.shared())
			p.refuse(p.exclusive())
			p.refuse(late)
			p.grant(w)
			p.release(w.ID, nil)
			p.grant(late)
			p.grant(p.shared())
		}},
		{"readers", "those at the head that have room together go in together", queue, func(p *probe) {
			w := p.exclusive()
			p.grant(w)
			var rs []driver.Request
			for range 5 {
				rs = append(rs, placed(p.shared(), p.long))
				p.refuse(rs[len(rs)-1])
			}
			w2 := placed(p.exclusive(), p.long)
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
		}},
		{"leave", "a place that is given up is gone, and those behind move up", queue, func(p *probe) {
			a, ws := p.line(3)
			p.release(ws[1].ID, nil)
			p.release(ws[1].ID, driver.ErrNotHeld)
			p.equal("ahead", p.refuse(ws[2]).Ahead, 1)
			p.release(ws[0].ID, nil)
			p.equal("ahead", p.refuse(ws[2]).Ahead, 0)
			p.equal("behind", p.renew(a.ID, p.long, nil, nil), 1)
			p.release(ws[2].ID, nil)
			p.release(a.ID, nil)
			p.grant(p.exclusive())
		}},
		{"leave room", "whoever gives up the head's place lets those in that have room", queue, func(p *probe) {
			r, w, r2 := p.shared(), placed(p.exclusive(), p.long), placed(p.shared(), p.long)
			p.grant(r)
			p.refuse(w)
			p.refuse(r2)
			p.release(w.ID, nil)
			p.grant(r2)
		}},
		{"a place is no claim", "a place in line cannot be renewed as a claim, and takes no room", queue, func(p *probe) {
			a, ws := p.line(1)
			p.renew(ws[0].ID, p.long, nil, driver.ErrNotHeld)
			p.equal("used", p.refuse(ws[0]).Used, driver.Whole)
			p.equal("used", p.grant(a).Used, driver.Whole)
		}},
		{"no place", "asking with QueueTTL 0 neither takes a place nor gives one up", queue, func(p *probe) {
			a, ws := p.line(2)
			b := p.exclusive()
			res := p.refuse(b)
			p.equal("ahead", res.Ahead, 2)
			p.equal("behind, without a place", res.Behind, 0)
			p.release(b.ID, driver.ErrNotHeld)
			p.equal("ahead", p.refuse(placed(ws[0], 0)).Ahead, 0)
			p.equal("ahead", p.refuse(ws[1]).Ahead, 1)
			p.release(a.ID, nil)
			p.refuse(ws[1])
			p.grant(placed(ws[0], 0))
		}},
		{"entry as it was", "an attempt with QueueTTL 0 changes neither what the queue entry of its owner stands for nor how long it lives", queue, func(p *probe) {
			r1, r2, w := p.shared(), p.shared(), placed(p.exclusive(), p.ttl)
			w.Holder, w.Task = "host-1", "task-1"
			p.grant(r1)
			p.grant(r2)
			p.refuse(w)
			born := p.last
			again := placed(w, 0)
			again.Weight, again.Holder, again.Task = driver.Whole-1, "host-2", "task-2"
			p.wait(0.5)
			p.while(born, p.ttl, func() {
				p.refuse(again)
				p.same(p.refuse(p.shared()).Blocker, w)
				if p.has(show) {
					p.same(p.shows(r1, r2, w)[2], w)
				}
			})
			p.passes(p.shared(), born, p.ttl)
		}},
		{"dead waiter", "a place that is not asked for again in time drops out", queue, func(p *probe) {
			a := p.exclusive()
			p.grant(a)
			dead, live := placed(p.exclusive(), p.ttl), placed(p.exclusive(), p.long)
			p.refuse(dead)
			born := p.last
			p.while(born, p.ttl, func() { p.equal("ahead", p.refuse(live).Ahead, 1) })
			p.release(a.ID, nil)
			p.passes(live, born, p.ttl)
			p.release(dead.ID, driver.ErrNotHeld)

			p.refuse(placed(p.exclusive(), p.ttl))
			born = p.last
			p.refuse(placed(p.exclusive(), p.ttl))
			last := p.last
			p.while(born, p.ttl, func() { p.equal("behind", p.grant(live).Behind, 2) })
			p.release(live.ID, nil)
			p.passes(p.exclusive(), last, p.ttl)
		}},
		{"place renewed", "a place that is asked for again in time keeps its position", queue, func(p *probe) {
			a := p.exclusive()
			p.grant(a)
			w1, w2 := placed(p.exclusive(), p.ttl), placed(p.exclusive(), p.ttl)
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
		}},
		{"place shorter", "a place lives for as long as was asked for last", queue, func(p *probe) {
			a := p.exclusive()
			p.grant(a)
			w := placed(p.exclusive(), p.long)
			p.refuse(w)
			p.refuse(placed(w, p.ttl))
			born := p.last
			p.release(a.ID, nil)
			p.passes(p.exclusive(), born, p.ttl)
		}},
		{"place as asked last", "a place stands for what its owner asked last", queue, func(p *probe) {
			r1, r2, w := p.shared(), p.shared(), placed(p.exclusive(), p.long)
			p.grant(r1)
			p.grant(r2)
			p.refuse(w)
			w.Weight, w.Holder, w.Task = driver.Whole-1, "asks for less", "task-2"
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
				p.woken(c, "the head, which asked for less,")
			}
			p.equal("used", p.grant(w).Used, driver.Whole)
		}},
		{"limit asked last", "the head of the line has room by the limit that it asks with, not by that of its place", queue | count, func(p *probe) {
			a, b, w := p.request(3, 5), p.request(2, 5), placed(p.request(2, 5), p.long)
			p.grant(a)
			p.grant(b)
			p.refuse(w)
			p.release(b.ID, nil)
			if p.refuse(p.slot(5)).Used == 5 {
				return // the head was granted what its place stood for
			}
			w.Limit = 4
			p.refuse(w)
			w.Limit = 5
			p.equal("used", p.grant(w).Used, int64(5))
		}},
		{"claim as asked last", "a claim granted from the line is what its owner asked for last", queue, func(p *probe) {
			a, w := p.exclusive(), placed(p.exclusive(), p.long)
			asks := func(n string) {
				w.Holder, w.Task = "host-"+n, "task-"+n
				if p.has(value) {
					w.Value, w.Meta = []byte(n), map[string]string{"k": n}
				}
			}
			p.grant(a)
			asks("1")
			p.refuse(w)
			asks("2")
			p.refuse(w)
			p.release(a.ID, nil)
			if p.refuse(p.exclusive()).Used == 0 { // else it was granted what its place stood for
				asks("3")
				w.Weight = driver.Whole - 1
			}
			p.grant(w)
			w.QueueTTL = 0
			p.told(w)
		}},
		{"huge place", "a place lives for as long as it was asked for, however long that is", queue, func(p *probe) {
			a, w := p.exclusive(), placed(p.exclusive(), math.MaxInt64)
			p.wait(0.5) // the store's clock does not stand at 0
			p.grant(a)
			p.refuse(w)
			p.wait(0.5)
			p.equal("ahead", p.refuse(p.exclusive()).Ahead, 1)
			p.release(a.ID, nil)
			p.refuse(p.exclusive())
			p.grant(w)
		}},
		{"ahead and behind", "an answer tells how many stand before the owner and behind it", queue, func(p *probe) {
			a := p.exclusive()
			p.equal("behind, with no line", p.grant(a).Behind, 0)
			p.equal("behind, renewed, with no line", p.renew(a.ID, p.long, nil, nil), 0)
			ws := p.join(4)
			for i, w := range ws {
				res := p.refuse(w)
				p.equal("ahead", res.Ahead, i)
				p.equal("behind", res.Behind, len(ws)-1-i)
			}
			p.equal("behind, granted again", p.grant(a).Behind, 4)
			p.equal("behind, renewed", p.renew(a.ID, p.long, nil, nil), 4)
			p.release(a.ID, nil)
			p.equal("behind, granted from the line", p.grant(ws[0]).Behind, 3)
		}},
	}
}

// line grants a claim and lets n others wait for it.
func (p *probe) line(n int) (holder driver.Request, waiters []driver.Request) {
	holder = p.exclusive()
	p.grant(holder)
	return holder, p.join(n)
}

// join lets n exclusive claims take a place at the end of an empty line.
func (p *probe) join(n int) (waiters []driver.Request) {
	for i := range n {
		w := placed(p.exclusive(), p.long)
		res := p.refuse(w)
		p.equal("ahead, on arrival", res.Ahead, i)
		p.equal("behind, on arrival", res.Behind, 0)
		waiters = append(waiters, w)
	}
	return waiters
}
