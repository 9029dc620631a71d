package drivertest

import "github.com/distlock/distlock/driver"

// capacityRules state when there is capacity for a claim.
func capacityRules() []rule {
	return []rule{
		{
			name:     "exclusive",
			sentence: "a claim of weight Whole leaves no capacity",
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				p.equal("used", p.grant(a).Used, driver.Whole)
				p.equal("used", p.refuse(b).Used, driver.Whole)
				p.refuse(p.shared())
				p.grant(on(p.exclusive(), p.key+"2"))
				p.release(a.ID, nil)
				p.grant(b)
				p.refuse(p.exclusive())
			},
		},
		{
			name: "shared",
			sentence: "claims of weight 1 under the limit Whole coexist and exclude a claim of " +
				"weight Whole",
			check: func(p *probe) {
				r1, r2, r3, w := p.shared(), p.shared(), p.shared(), p.exclusive()
				p.grant(r1)
				p.grant(r2)
				p.equal("used", p.grant(r3).Used, int64(3))
				p.equal("used", p.refuse(w).Used, int64(3))
				p.release(r2.ID, nil)
				p.release(r1.ID, nil)
				p.refuse(w)
				p.release(r3.ID, nil)
				p.grant(w)
				p.refuse(p.shared())
			},
		},
		{
			name:     "downgrade",
			sentence: "a repeated Acquire with a lower weight lowers the weight and makes capacity",
			check: func(p *probe) {
				a, b := p.exclusive(), p.shared()
				was := p.grant(a)
				p.refuse(b)
				a.Weight = 1
				now := p.grant(a)
				p.equal("used", now.Used, int64(1))
				p.equal("the fence after a downgrade", now.Fence, was.Fence)
				p.grant(b)
				p.refuse(p.exclusive())
				p.release(a.ID, nil)
				p.release(b.ID, nil)
				p.grant(p.exclusive())
			},
		},
		{
			name: "downgrade by part",
			sentence: "a repeated Acquire with a lower weight makes capacity for the difference " +
				"and no more",
			needs: count,
			check: func(p *probe) {
				a := p.request(5, 5)
				p.grant(a)
				a.Weight = 3
				p.equal("used", p.grant(a).Used, int64(3))
				p.refuse(p.request(3, 5))
				p.equal("used", p.grant(p.request(2, 5)).Used, int64(5))
				p.refuse(p.slot(5))
			},
		},
		{
			name: "count",
			sentence: "the weights of the live claims never exceed the limit of the claim that " +
				"is granted last",
			needs: count,
			check: func(p *probe) {
				a, b, c := p.slot(3), p.slot(3), p.slot(3)
				p.grant(a)
				p.grant(b)
				p.refuse(p.request(2, 3))
				p.equal("used", p.grant(c).Used, int64(3))
				p.equal("used", p.refuse(p.slot(3)).Used, int64(3))
				p.refuse(p.exclusive())
				p.equal("used", p.grant(p.slot(4)).Used, int64(4))
				p.refuse(p.slot(4))
				p.release(a.ID, nil)
				p.refuse(p.slot(3))
				p.release(b.ID, nil)
				p.equal("used", p.grant(p.slot(3)).Used, int64(3))
				p.refuse(p.request(3, 5))
				p.equal("used", p.grant(p.request(2, 5)).Used, int64(5))
			},
		},
	}
}
