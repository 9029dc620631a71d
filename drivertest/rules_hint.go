package drivertest

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// hintRules state what a refusal reports about the blockers of the claim.
func hintRules() []rule {
	return []rule{
		{
			name: "retry",
			sentence: "a refusal reports when the next blocking claim ends, and names a " +
				"blocking claim",
			check: func(p *probe) {
				a, b := p.short(p.exclusive()), p.exclusive()
				p.grant(a)
				p.while(p.last, p.ttl, func() {
					born := p.last
					p.hint(p.refuse(b), a, born, p.ttl)
					p.renew(a.ID, p.long, nil, nil)
				})
				born := p.last
				p.hint(p.refuse(b), a, born, p.long)
				p.wait(0.5)
				p.hint(p.refuse(b), a, born, p.long)
			},
		},
		{
			name: "first to end",
			sentence: "Retry is the remaining life of the live claim that ends first, the " +
				"oldest or not",
			needs: expiry,
			check: func(p *probe) {
				a, b, c := p.shared(), p.short(p.shared()), p.shared()
				c.TTL = min(3*p.ttl, p.long)
				p.grant(a)
				p.grant(b)
				first := p.last
				p.grant(c)
				second := p.last
				p.while(first, p.ttl, func() {
					p.retry(p.refuse(p.exclusive()), first, p.ttl)
					p.release(b.ID, nil)
				})
				p.while(second, c.TTL, func() { p.retry(p.refuse(p.exclusive()), second, c.TTL) })
			},
		},
		{
			name: "first entry to end",
			sentence: "Retry is the remaining life of the entry before the owner's that ends " +
				"first, or of any entry if it has none, with capacity or without",
			needs: queue,
			check: func(p *probe) {
				life := min(5*p.ttl, p.long)
				r, w1, w2 := p.shared(), queued(p.exclusive(), life), queued(p.exclusive(), p.ttl)
				r2, w3 := queued(p.shared(), p.long), queued(p.exclusive(), p.ttl/2)
				p.grant(r)
				p.refuse(w1)
				head := p.last
				p.retry(p.refuse(w2), head, life) // the claim blocks it too, and lives longer
				born := p.last
				p.while(born, p.ttl, func() {
					p.retry(p.refuse(r2), born, p.ttl)
					p.retry(p.refuse(p.shared()), born, p.ttl)
				})
				p.refuse(w3)
				last := p.last
				p.while(born, p.ttl/2, func() { // later w2 ends before w3
					p.retry(p.refuse(p.shared()), last, p.ttl/2)
					p.retry(p.refuse(r2), born, p.ttl) // an entry behind it does not block it
				})
			},
		},
		{
			name: "when to retry",
			sentence: "when Retry has passed by the store's clock, the blocker that it is about " +
				"has ended",
			needs: expiry,
			check: func(p *probe) {
				life := min(p.ttl+p.ttl/7+1, p.long) // no round number
				a, b := p.exclusive(), p.exclusive()
				a.TTL = life
				p.grant(a)
				p.outlasts(b, p.last, life)
				if !p.has(queue) {
					return
				}
				r, w := on(p.shared(), p.key+"2"), on(queued(p.exclusive(), life), p.key+"2")
				p.grant(r)
				p.refuse(w)
				p.outlasts(on(p.shared(), r.Key), p.last, life)
			},
		},
		{
			name: "blocker",
			sentence: "Blocker is one live claim if there is no capacity, and otherwise an " +
				"entry before the owner's",
			needs: queue,
			check: func(p *probe) {
				r, r2 := p.shared(), queued(p.shared(), p.long)
				w1, w2 := queued(p.exclusive(), p.long), queued(p.exclusive(), p.long)
				r.Holder, w1.Holder = "reads", "waits"
				p.grant(r)
				for _, w := range []driver.Request{w1, r2, w2} {
					p.refuse(w)
				}
				for _, w := range []driver.Request{w1, w2, p.exclusive()} {
					p.names(p.refuse(w), r, false)
				}
				p.names(p.refuse(r2), w1, true)
				p.release(r2.ID, nil)
				p.release(w2.ID, nil)
				p.names(p.refuse(p.shared()), w1, true)
			},
		},
	}
}

// hint fails unless a refusal names its blocker and the remaining life of it, which the call born
// started.
func (p *probe) hint(res driver.Result, blocker driver.Request, born span, life time.Duration) {
	p.names(res, blocker, false)
	if p.has(expiry) {
		p.retry(res, born, life)
	}
}

// outlasts attempts r, which is refused because of a blocker that the call born gave a life, and
// attempts r again when Retry has passed. This is exact in real time too, since Retry is counted
// from the arrival of the answer; but a claim may live a little longer than the store reports.
func (p *probe) outlasts(r driver.Request, born span, life time.Duration) {
	p.wait(0.3)
	var d time.Duration
	p.while(born, life, func() { d = p.refuse(r).Retry })
	for past, most := p.last, d+p.patience; d > 0; {
		time.Sleep(d)
		res := p.attempt(r)
		if res.Granted {
			return
		}
		late := max(p.ttl/100, p.env.Grain) // an ended claim may be reported with so much left, until a sweep
		if least, _ := p.since(past); p.has(virtual) || res.Blocker.Left > late || least > most {
			p.fail("Acquire(%s): refused after Retry had passed, by a blocker that ends in %v",
				describe(r), res.Blocker.Left)
		}
		d = p.ttl / 1000
	}
}

// retry fails unless a refusal reports the remaining life, or nothing.
func (p *probe) retry(res driver.Result, born span, life time.Duration) {
	if res.Retry != 0 { // 0: the store does not know
		p.remaining("retry", res.Retry, born, life)
	}
}

// names fails unless a refusal names this claim or entry.
func (p *probe) names(res driver.Result, blocker driver.Request, waiting bool) {
	p.equal("the blocker's owner", res.Blocker.Owner, driver.Tag(blocker.Owner))
	p.equal("the blocker waits", res.Blocker.Waiting, waiting)
	p.equal("the blocker has a fence", res.Blocker.Fence != 0, p.has(fence) && !waiting)
	p.same(res.Blocker, blocker)
}
