package drivertest

import (
	"math"
	"time"

	"github.com/distlock/distlock/driver"
)

// lifeLaws say how claims end.
func lifeLaws() []law {
	return []law{
		{"stale", "a late release or renewal touches no other claim", 0, func(p *probe) {
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
		}},
		{"expiry", "a claim lives for at least its TTL, and ends though nobody releases it", expiry, func(p *probe) {
			a, b := p.short(p.exclusive()), p.exclusive()
			from := time.Now()
			p.grant(a)
			p.passes(b, from, p.ttl)
			p.renew(a.ID, p.ttl, nil, driver.ErrNotHeld)
			p.release(a.ID, driver.ErrNotHeld)
			p.refuse(p.exclusive())
			p.renew(b.ID, p.long, nil, nil)
		}},
		{"slots", "a claim that ends by itself makes room for one of its weight and no more", expiry | count, func(p *probe) {
			a, b, c := p.short(p.slot(2)), p.slot(2), p.slot(2)
			from := time.Now()
			p.grant(a)
			p.grant(b)
			p.passes(c, from, p.ttl)
			p.equal("used", p.refuse(p.slot(2)).Used, int64(2))
		}},
		{"renew", "a renewed claim lives for the new TTL, counted from the renewal", expiry, func(p *probe) {
			a := p.short(p.exclusive())
			p.grant(a)
			p.wait(0.5)
			from := time.Now()
			p.renew(a.ID, p.ttl, nil, nil)
			p.wait(0.5)
			from2 := time.Now()
			p.renew(a.ID, 2*p.ttl, nil, nil)
			if p.sure(from, p.ttl) {
				p.refuse(p.exclusive())
			}
			p.passes(p.exclusive(), from2, 2*p.ttl)
		}},
		{"shorten", "a renewal may shorten a life", expiry, func(p *probe) {
			a := p.exclusive()
			p.grant(a)
			from := time.Now()
			p.renew(a.ID, p.ttl, nil, nil)
			p.passes(p.exclusive(), from, p.ttl)
		}},
		{"ended", "a renewal never brings back a claim that has ended", 0, func(p *probe) {
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
			p.grant(c)
			p.wait(1)
			time.Sleep(p.patience)
			p.renew(c.ID, p.long, nil, driver.ErrNotHeld)
			p.grant(p.exclusive())
		}},
		{"keep", "a kept claim is a record: it is marked, and lives for its TTL with nobody renewing it", keep | expiry, func(p *probe) {
			a, b := p.exclusive(), p.exclusive()
			p.grant(a)
			p.equal("kept, before", p.refuse(b).Blocker.Kept, false)
			from := time.Now()
			r := driver.Renewal{ID: a.ID, TTL: p.ttl, Keep: true}
			if p.has(value) {
				r.Value = []byte("done")
			}
			p.renewal(r, nil)
			if res := p.refuse(b); p.sure(from, p.ttl) {
				p.equal("the blocker is kept", res.Blocker.Kept, true)
				p.equal("the blocker's value", string(res.Blocker.Value), string(r.Value))
			}
			if p.has(show) {
				if cs := p.shows(a); p.sure(from, p.ttl) {
					p.equal("the claim shown is kept", cs[0].Kept, true)
				}
			}
			p.passes(b, from, p.ttl)
			p.equal("kept, of the next claim", p.refuse(p.exclusive()).Blocker.Kept, false)
		}},
		{"window", "claims that nobody renews or releases are a rate limit, and Retry says when the next one ends", count | expiry, func(p *probe) {
			a, b, c := p.short(p.slot(2)), p.short(p.slot(2)), p.short(p.slot(2))
			first := time.Now()
			p.grant(a)
			p.wait(0.5)
			second := time.Now()
			p.grant(b)
			retry := p.refuse(c).Retry
			if rest := p.ttl - time.Since(first); retry > rest+p.patience {
				p.fail("retry %v, want at most %v", retry, rest)
			}
			p.passes(c, first, p.ttl)
			if p.sure(second, p.ttl) {
				p.refuse(p.slot(2))
			}
			p.passes(p.slot(2), second, p.ttl)
		}},
		{"huge TTL", "a TTL is obeyed however long it is, or is ErrInvalid", 0, func(p *probe) {
			p.wait(0.5) // the store's clock does not stand at 0
			for _, ttl := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2} {
				a := on(p.exclusive(), p.key+ttl.String())
				a.TTL = ttl
				if p.store.Features().MaxTTL > 0 {
					p.invalid(a, "a TTL above MaxTTL")
					continue
				}
				if res, err := p.store.Acquire(p.t.Context(), a); err != nil {
					p.invalid(a, "a TTL of "+ttl.String())
				} else {
					p.equal("granted", res.Granted, true)
					p.wait(0.5)
					p.refuse(on(p.exclusive(), a.Key))
					p.renew(a.ID, ttl, nil, nil)
					p.wait(0.5)
					p.refuse(on(p.exclusive(), a.Key))
				}
			}
		}},
		{"restart", "claims outlive a restart, and fences still rise after it", restart | detached, func(p *probe) {
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
		}},
	}
}

// sure reports whether a claim that was asked for no earlier than from is surely still live.
func (p *probe) sure(from time.Time, ttl time.Duration) bool { return time.Since(from) < ttl }
