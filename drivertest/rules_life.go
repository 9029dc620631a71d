package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
)

// lifeRules state how claims end.
func lifeRules() []rule {
	return []rule{
		{
			name:     "stale",
			sentence: "a late release or renewal changes no other claim",
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				p.grant(a)
				p.release(a.ID, nil)
				p.release(a.ID, driver.ErrNotHeld)
				p.grant(b)
				p.release(a.ID, driver.ErrNotHeld)
				p.renew(a.ID, p.ttl, nil, driver.ErrNotHeld)
				p.renew(driver.ID{Key: p.key + "2", Owner: b.Owner}, p.ttl, nil, driver.ErrNotHeld)
				p.release(driver.ID{Key: p.key + "2", Owner: b.Owner}, driver.ErrNotHeld)
				p.refuse(p.exclusive())
				p.renew(b.ID, p.long, nil, nil)
				p.release(b.ID, nil)
			},
		},
		{
			name:     "expiry",
			sentence: "a claim lives for at least its TTL, and ends without a release",
			needs:    expiry,
			check: func(p *probe) {
				a, b := p.short(p.exclusive()), p.exclusive()
				p.grant(a)
				p.grantAfter(b, p.last, p.ttl)
				p.renew(a.ID, p.ttl, nil, driver.ErrNotHeld)
				p.release(a.ID, driver.ErrNotHeld)
				p.refuse(p.exclusive())
				p.renew(b.ID, p.long, nil, nil)
			},
		},
		{
			name:     "slots",
			sentence: "a claim that expires makes capacity for its weight and no more",
			needs:    expiry | count,
			check: func(p *probe) {
				a, b, c := p.short(p.slot(2)), p.slot(2), p.slot(2)
				p.grant(a)
				born := p.last
				p.grant(b)
				p.grantAfter(c, born, p.ttl)
				p.equal("used", p.refuse(p.slot(2)).Used, int64(2))
			},
		},
		{
			name:     "slots at once",
			sentence: "the first attempt after the end of a claim finds its capacity",
			needs:    expiry | count,
			check: func(p *probe) {
				a, b := p.short(p.slot(2)), p.slot(2)
				p.grant(a)
				born := p.last
				p.grant(b)
				time.Sleep(time.Until(born.ended.Add(p.ttl + p.patience)))
				p.grant(p.slot(2))
			},
		},
		{
			name:     "renew",
			sentence: "a renewed claim lives for the new TTL, counted from the renewal",
			needs:    expiry,
			check: func(p *probe) {
				a := p.short(p.exclusive())
				p.grant(a)
				for _, ttl := range []time.Duration{p.ttl, 2 * p.ttl} {
					born := p.last
					p.wait(0.5)
					p.while(born, p.ttl, func() { p.renew(a.ID, ttl, nil, nil) })
				}
				p.grantAfter(p.exclusive(), p.last, 2*p.ttl)
			},
		},
		{
			name:     "shorten",
			sentence: "a renewal may shorten a life",
			needs:    expiry,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				p.renew(a.ID, p.ttl, nil, nil)
				p.grantAfter(p.exclusive(), p.last, p.ttl)
			},
		},
		{
			name: "ended",
			sentence: "a renewal never brings back a claim that has ended, and a release of it is " +
				"ErrNotHeld",
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				p.renew(a.ID, p.long, nil, driver.ErrNotHeld)
				p.grant(a)
				p.release(a.ID, nil)
				p.renew(a.ID, p.long, nil, driver.ErrNotHeld)
				p.grant(b)
				p.release(b.ID, nil)
				if !p.has(expiry) {
					return
				}
				c := p.short(p.exclusive())
				d := on(c, p.key+"2")
				p.grant(d)
				var together []driver.Renewal
				for i, r := range []driver.Request{p.exclusive(), p.exclusive(), p.shared()} {
					r = on(p.short(r), fmt.Sprint(p.key, "-", i))
					p.grant(r)
					together = append(together, driver.Renewal{ID: r.ID, TTL: p.long})
				}
				p.grant(c)
				p.outlive(p.last, p.ttl)
				p.release(d.ID, driver.ErrNotHeld)
				p.renew(c.ID, p.long, nil, driver.ErrNotHeld)
				for i, got := range p.renewAll(together) {
					if !errors.Is(got.Err, driver.ErrNotHeld) {
						p.fail("RenewAll, answer %d: error %v, want ErrNotHeld", i, got.Err)
					}
				}
				p.grant(p.exclusive())
			},
		},
		{
			name: "keep",
			sentence: "a kept claim is a record: it is marked, and lives for its TTL without " +
				"renewals",
			needs: keep | expiry,
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				p.grant(a)
				p.equal("kept, before", p.refuse(b).Blocker.Kept, false)
				r := driver.Renewal{ID: a.ID, TTL: p.ttl, Keep: true}
				if p.has(value) {
					r.Value = []byte("done")
				}
				p.renewal(r, nil)
				born := p.last
				p.while(born, p.ttl, func() {
					a.Value = r.Value
					for _, c := range p.visible(a) {
						p.equal("kept", c.Kept, true)
					}
				})
				p.grantAfter(b, born, p.ttl)
				p.equal("kept, of the next claim", p.refuse(p.exclusive()).Blocker.Kept, false)
			},
		},
		{
			name: "record",
			sentence: "a record keeps its life and its value, even if its owner renews it " +
				"without Keep or repeats Acquire",
			needs: keep | expiry,
			check: func(p *probe) {
				// Each on a key of its own, and all of them in the same time.
				key, all := p.key, p.lateCalls()
				with := func(late lateCall) lateCall {
					p.key = key + "-" + late.name
					return late
				}
				kept := func(id driver.ID, ttl time.Duration) driver.Renewal {
					r := driver.Renewal{ID: id, TTL: ttl, Keep: true}
					if p.has(value) {
						r.Value = []byte("done")
					}
					p.renewal(r, nil)
					return r
				}
				born := make([]span, len(all))
				for i, late := range all {
					with(late)
					a := p.exclusive()
					p.grant(a)
					a.Value = kept(a.ID, p.ttl).Value
					born[i] = p.last
					p.while(born[i], p.ttl, func() {
						late.call(a, 3*p.ttl) // no longer
						for _, c := range p.visible(a) {
							p.equal("kept", c.Kept, true)
						}
					})
				}
				next := make([]driver.Request, len(all))
				for i, late := range all {
					with(late)
					next[i] = p.exclusive()
					p.grantAfter(next[i], born[i], p.ttl)
					kept(next[i].ID, p.long)
					late.call(next[i], p.ttl) // no shorter
				}
				p.outlive(p.last, p.ttl)
				for i, late := range all {
					with(late)
					p.refuse(p.exclusive())
					kept(next[i].ID, p.ttl) // the reply was lost: the claim is kept again
					born[i] = p.last
				}
				for i, late := range all {
					with(late)
					p.grantAfter(p.exclusive(), born[i], p.ttl)
				}
			},
		},
		{
			name:     "record ended",
			sentence: "a record can be released, and broken like a claim",
			needs:    keep,
			check: func(p *probe) {
				kept := func() driver.Request {
					a := p.exclusive()
					p.grant(a)
					p.renewal(driver.Renewal{ID: a.ID, TTL: p.long, Keep: true}, nil)
					p.refuse(p.exclusive())
					return a
				}
				p.release(kept().ID, nil)
				if p.has(breaks) {
					a := kept()
					p.broken(p.key, a)
					p.renewal(driver.Renewal{ID: a.ID, TTL: p.long, Keep: true}, driver.ErrNotHeld)
				}
				p.grant(p.exclusive())
			},
		},
		{
			name: "window",
			sentence: "claims that are neither renewed nor released are a rate limit, and Retry " +
				"reports when the next one ends",
			needs: count | expiry,
			check: func(p *probe) {
				a, b, c := p.short(p.slot(2)), p.short(p.slot(2)), p.short(p.slot(2))
				p.grant(a)
				first := p.last
				p.wait(0.5)
				p.grant(b)
				second := p.last
				p.while(first, p.ttl, func() {
					p.retry(p.refuse(c), first, p.ttl)
				})
				p.grantAfter(c, first, p.ttl)
				p.while(second, p.ttl, func() { p.refuse(p.slot(2)) })
				p.grantAfter(p.slot(2), second, p.ttl)
			},
		},
		{
			name:     "restart",
			sentence: "claims outlive a restart, and fences still grow after it",
			needs:    restart | detached,
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				was := p.grant(a)
				p.store = p.env.Restart(p.t, p.store)
				p.refuse(b)
				p.renew(a.ID, p.long, nil, nil)
				p.equal("the fence after a restart", p.grant(a).Fence, was.Fence)
				p.release(a.ID, nil)
				p.store = p.env.Restart(p.t, p.store)
				if res := p.grant(b); p.has(fence) {
					p.atLeast("the fence after a restart", res.Fence, was.Fence+driver.Span)
				}
			},
		},
	}
}

// A lateCall is a call that the owner of a claim sent before the claim became a record, and that
// arrives after that.
type lateCall struct {
	name string
	call func(r driver.Request, ttl time.Duration)
}

func (p *probe) lateCalls() []lateCall {
	text := func() []byte {
		if !p.has(value) {
			return nil
		}
		return []byte("late")
	}
	return []lateCall{
		{"renew", func(r driver.Request, ttl time.Duration) { p.renew(r.ID, ttl, nil, nil) }},
		{"value", func(r driver.Request, ttl time.Duration) { p.renew(r.ID, ttl, text(), nil) }},
		{"all", func(r driver.Request, ttl time.Duration) {
			other := on(p.exclusive(), "other-"+p.key+ttl.String())
			p.grant(other)
			for _, one := range p.renewAll([]driver.Renewal{{ID: r.ID, TTL: ttl}, {ID: other.ID, TTL: ttl}}) {
				p.equal("the error of a renewal among many", one.Err, nil)
			}
		}},
		{"again", func(r driver.Request, ttl time.Duration) {
			r.TTL = ttl
			p.grant(r)
		}},
	}
}
