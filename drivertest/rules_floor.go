package drivertest

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// floorRules state how a caller may raise a fence.
func floorRules() []rule {
	return []rule{
		{
			name:     "floor",
			sentence: "a fence is at least the Floor, and the next grant is Span above that",
			needs:    floor,
			check: func(p *probe) {
				a := p.exclusive()
				was := p.grant(a).Fence
				a.Floor = was + 1e6
				raised := p.grant(a).Fence
				p.equal("the fence of a repeated Acquire with a higher Floor", raised, a.Floor)
				a.Floor = was + 1
				p.equal("the fence of a repeated Acquire with a lower Floor", p.grant(a).Fence, raised)
				a.Floor = 0
				p.equal("the fence of a repeated Acquire without Floor", p.grant(a).Fence, raised)
				p.release(a.ID, nil)
				b := p.exclusive()
				got := p.grant(b).Fence
				p.atLeast("the next fence", got, raised+driver.Span)
				p.release(b.ID, nil)

				c := p.exclusive()
				c.Floor = got + driver.MaxAhead/2
				first := p.grant(c).Fence
				p.atLeast("the fence of a grant with Floor", first, c.Floor)
				p.release(c.ID, nil)
				d := p.exclusive()
				d.Floor = 1
				p.atLeast("the fence after that", p.grant(d).Fence, first+driver.Span)
			},
		},
		{
			name: "floor too far",
			sentence: "a Floor more than MaxAhead beyond the clock and the last fence is " +
				"ErrInvalid for every claim, and changes nothing",
			needs: floor,
			check: func(p *probe) {
				a := p.exclusive()
				was := p.grant(a).Fence
				// The store's clock may differ from this one by up to two hours.
				far := max(was, uint64(time.Now().UnixMicro())) + 3*driver.MaxAhead
				const most = driver.MaxFence - driver.Span
				for _, f := range []uint64{far, most - 1, most, driver.MaxFence - 1, 1 << 63} {
					free, taken, held := on(p.exclusive(), p.key+"2"), p.exclusive(), a
					free.Floor, taken.Floor, held.Floor = f, f, f
					p.invalid(free, "a Floor too far ahead")
					p.invalid(taken, "a Floor too far ahead, on a key that another owner holds")
					p.invalid(held, "a Floor too far ahead, on a claim that is held")
					if p.has(queue) {
						p.invalid(queued(taken, p.long), "a Floor too far ahead, with QueueTTL")
					}
				}
				now := p.grant(a)
				p.equal("the fence of the claim that is held", now.Fence, was)
				p.equal("behind", now.Behind, 0)
				p.release(a.ID, nil)
				for _, r := range []driver.Request{p.exclusive(), on(p.exclusive(), p.key+"2")} {
					p.below("the next fence", p.grant(r).Fence, far)
				}
			},
		},
		{
			name: "floor ahead",
			sentence: "how far a Floor may lie ahead is counted from the store's clock or the " +
				"key's last fence, whichever is later",
			needs: floor,
			check: func(p *probe) {
				from := func(last uint64, r driver.Request) uint64 {
					r.Floor = last + driver.MaxAhead/2
					got := p.grant(r).Fence
					p.atLeast("the fence of a grant with Floor", got, r.Floor)
					return got
				}
				clock := func() uint64 { return uint64(time.Now().UnixMicro()) }
				a := p.exclusive()
				last := from(clock(), a) // the key has no last fence
				for range 8 {            // to hours ahead of the clock
					last = from(last, a)
					p.release(a.ID, nil)
					a = p.exclusive()
					last = from(last, a)
				}
				b := p.exclusive()
				b.Floor = last + driver.MaxAhead + driver.Span
				p.invalid(b, "a Floor more than MaxAhead beyond the last fence")
				a.Floor = last + driver.MaxAhead
				p.equal("the fence of a repeated Acquire with the highest Floor", p.grant(a).Fence, a.Floor)
				if p.has(virtual) {
					c, d := on(p.exclusive(), p.key+"2"), on(p.exclusive(), p.key+"2")
					p.grant(c)
					p.release(c.ID, nil)
					time.Sleep(3 * time.Hour) // the clock is far beyond the last fence
					from(clock(), d)
				}
			},
		},
		{
			name:     "floor refused",
			sentence: "the Floor of a refused claim does not count as an assigned fence",
			needs:    floor,
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				b.Floor = p.grant(a).Fence + driver.MaxAhead/2
				p.refuse(b)
				if p.has(queue) {
					p.refuse(queued(b, p.long))
					p.release(b.ID, nil)
				}
				p.release(a.ID, nil)
				p.below("the next fence", p.grant(p.exclusive()).Fence, b.Floor)
			},
		},
		{
			name:     "floor while waiting",
			sentence: "a fence that is raised while others wait is assigned to none of them",
			needs:    floor | queue,
			check: func(p *probe) {
				a, w := p.exclusive(), queued(p.exclusive(), p.long)
				was := p.grant(a).Fence
				p.refuse(w)
				a.Floor = was + driver.MaxAhead/2
				raised := p.grant(a).Fence
				p.equal("the fence of a repeated Acquire with a higher Floor", raised, a.Floor)
				p.release(a.ID, nil)
				p.atLeast("the fence of the head of the queue", p.grant(w).Fence, raised+driver.Span)
			},
		},
		{
			name:     "remembered",
			sentence: "a fence ahead of the clock is remembered until the clock has passed it",
			needs:    floor,
			check: func(p *probe) {
				rounds, pause := 6, 11*time.Minute
				if !p.has(virtual) { // a store that forgets a key at once is found all the same
					rounds, pause = 1, 2*time.Second
				}
				a := p.exclusive()
				was := p.grant(a).Fence
				p.release(a.ID, nil)
				b := p.exclusive()
				b.Floor = was + driver.MaxAhead/2 // half an hour where fences follow the clock
				raised := p.grant(b).Fence
				p.release(b.ID, nil)
				for range rounds {
					time.Sleep(pause)
					p.idle()
					c := p.exclusive()
					got := p.grant(c).Fence
					p.atLeast("the fence after a while", got, raised+driver.Span)
					p.release(c.ID, nil)
					raised = got
				}
			},
		},
	}
}

// below fails unless got is below limit: a Floor without effect has not raised it.
func (p *probe) below(what string, got, limit uint64) {
	if got >= limit {
		p.wrong("%s: got %d, want below %d", what, got, limit)
	}
}
