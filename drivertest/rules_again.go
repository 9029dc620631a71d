package drivertest

import "github.com/distlock/distlock/driver"

// againRules state the effect of a repeated Acquire of a claim that is held.
func againRules() []rule {
	return []rule{
		{
			name:     "again",
			sentence: "a repeated Acquire gets the same grant with a full TTL from now",
			check: func(p *probe) {
				a := p.short(p.exclusive())
				was := p.grant(a)
				if !p.has(expiry) {
					now := p.grant(a)
					p.equal("fence", now.Fence, was.Fence)
					p.equal("used", now.Used, driver.Whole)
					p.refuse(p.exclusive())
					return
				}
				born := p.last
				p.wait(0.5)
				p.while(born, p.ttl, func() {
					now := p.grant(a)
					p.equal("fence", now.Fence, was.Fence)
					p.equal("used", now.Used, driver.Whole)
				})
				p.grantAfter(p.exclusive(), p.last, p.ttl)
			},
		},
		{
			name:     "fresh",
			sentence: "a grant that the owner had already is not reported as fresh",
			check: func(p *probe) {
				for _, a := range []driver.Request{p.exclusive(), p.shared()} {
					p.grant(a)
					if p.grant(a).Fresh {
						p.wrong("Acquire(%s) of an owner that has the claim: fresh", describe(a))
					}
					p.release(a.ID, nil)
				}
			},
		},
		{
			name:     "again shorter",
			sentence: "a repeated Acquire with a shorter TTL shortens the life",
			needs:    expiry,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				p.grant(p.short(a))
				p.grantAfter(p.exclusive(), p.last, p.ttl)
			},
		},
		{
			name:     "heavier",
			sentence: "a repeated Acquire never raises the weight, and is granted all the same",
			check: func(p *probe) {
				a := p.shared()
				p.grant(a)
				a.Weight = driver.Whole
				p.equal("used", p.grant(a).Used, int64(1))
				b := p.shared()
				p.equal("used", p.grant(b).Used, int64(2))
				p.equal("used", p.grant(a).Used, int64(2))
				p.release(a.ID, nil)
				p.release(a.ID, driver.ErrNotHeld)
				p.refuse(p.exclusive())
			},
		},
		{
			name:     "lower limit",
			sentence: "a held claim is granted again even if its limit leaves no capacity",
			needs:    count,
			check: func(p *probe) {
				a := p.slot(3)
				p.grant(a)
				p.grant(p.slot(3))
				p.grant(p.slot(3))
				a.Limit = 1
				p.equal("used", p.grant(a).Used, int64(3))
				p.refuse(p.slot(3))
				p.grant(p.slot(4))
			},
		},
		{
			name:     "as it was",
			sentence: "a repeated Acquire changes neither holder, task, meta, value nor limit",
			check: func(p *probe) {
				a := p.shared()
				a.Holder, a.Task = "host-1", "task-1"
				b := a
				b.Holder, b.Task = "host-2", "task-2"
				if p.has(value) {
					a.Meta, a.Value = map[string]string{"k": "1"}, []byte("one")
					b.Meta, b.Value = map[string]string{"k": "2", "l": "2"}, []byte("two")
				}
				if p.has(count) {
					b.Limit = 5
				}
				p.grant(a)
				p.grant(b)
				p.visible(a)
			},
		},
		{
			name:     "again with a queue",
			sentence: "a held claim is granted again whether or not there is a queue",
			needs:    queue,
			check: func(p *probe) {
				a, b := p.shared(), queued(p.exclusive(), p.long)
				p.grant(a)
				p.refuse(b)
				p.equal("behind", p.grant(a).Behind, 1)
				p.release(a.ID, nil)
				p.grant(b)
			},
		},
		{
			name:     "other key",
			sentence: "an owner's claim on one key is no claim on another",
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				b := on(p.exclusive(), p.key+"2")
				p.grant(b)
				p.refuse(on(a, b.Key))
				p.release(driver.ID{Key: b.Key, Owner: a.Owner}, driver.ErrNotHeld)
				p.renew(driver.ID{Key: b.Key, Owner: a.Owner}, p.long, nil, driver.ErrNotHeld)
				p.release(a.ID, nil)
				p.refuse(on(p.exclusive(), b.Key))
			},
		},
		{
			name:     "ended owner",
			sentence: "an owner whose claim has ended is granted a new one, with new fences",
			check: func(p *probe) {
				a := p.exclusive()
				last := p.grant(a).Fence
				next := func(how string, res driver.Result) {
					p.equal("used", res.Used, driver.Whole)
					if p.has(fence) {
						p.atLeast("the fence of the same owner after "+how, res.Fence, last+driver.Span)
					}
					last = res.Fence
					p.refuse(p.exclusive())
				}
				p.release(a.ID, nil)
				next("a release", p.grant(a))
				if p.has(breaks) {
					p.broken(p.key, a)
					next("Break", p.grant(a))
					p.renew(a.ID, p.long, nil, nil)
				}
				if p.has(expiry) {
					p.renew(a.ID, p.ttl, nil, nil)
					p.outlive(p.last, p.ttl)
					next("the end of a TTL", p.grant(a))
				}
				p.renew(a.ID, p.long, nil, nil)
				p.release(a.ID, nil)
				p.release(a.ID, driver.ErrNotHeld)
			},
		},
	}
}
