package drivertest

import (
	"time"

	"github.com/distlock/distlock/driver"
)

// fenceLaws say how grants are numbered.
func fenceLaws() []law {
	return []law{
		{"fence", "fences of exclusive grants rise by at least Span across release, expiry and Break", fence, func(p *probe) {
			a := p.exclusive()
			last := p.grant(a).Fence
			next := func(how string, res driver.Result) {
				p.atLeast("the fence after "+how, res.Fence, last+driver.Span)
				last = res.Fence
			}
			for range 5 {
				p.release(a.ID, nil)
				a = p.exclusive()
				next("a release", p.grant(a))
			}
			if p.has(expiry) {
				from := time.Now()
				p.renew(a.ID, p.ttl, nil, nil)
				a = p.exclusive()
				next("the end of a TTL", p.passes(a, from, p.ttl))
			}
			if p.has(breaks) {
				p.broken(p.key, a)
				a = p.exclusive()
				next("Break", p.grant(a))
			}
			p.release(a.ID, nil)
			r := p.shared()
			next("an exclusive claim", p.grant(r))
			r2 := p.shared()
			last = max(last, p.grant(r2).Fence)
			p.release(r.ID, nil)
			p.release(r2.ID, nil)
			next("shared claims", p.grant(p.exclusive()))
		}},
		{"shared fence", "a shared or counted grant has a fence at least Span above those of all claims that had ended", fence, func(p *probe) {
			a, b := p.shared(), p.shared()
			first := p.grant(a).Fence
			second := p.grant(b).Fence
			p.release(b.ID, nil)
			c := p.shared()
			third := p.grant(c).Fence
			p.atLeast("the fence after the second ended", third, second+driver.Span)
			p.release(a.ID, nil)
			p.release(c.ID, nil)
			p.atLeast("the fence after all ended", p.grant(p.shared()).Fence, max(first, third)+driver.Span)
		}},
		{"floor", "a fence is at least the Floor, and the next grant is Span above that", floor, func(p *probe) {
			a := p.exclusive()
			was := p.grant(a).Fence
			a.Floor = was + 1e6
			raised := p.grant(a).Fence
			p.equal("the fence asked for again with a higher Floor", raised, a.Floor)
			a.Floor = was + 1
			p.equal("the fence asked for again with a lower Floor", p.grant(a).Fence, raised)
			a.Floor = 0
			p.equal("the fence asked for again without Floor", p.grant(a).Fence, raised)
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
		}},
		{"floor too far", "a Floor more than MaxAhead beyond the clock and the last fence is ErrInvalid, and uses up nothing", floor, func(p *probe) {
			a := p.exclusive()
			was := p.grant(a).Fence
			p.release(a.ID, nil)
			// The store's clock may differ from this one; two hours of it are forgiven.
			far := max(was, uint64(time.Now().UnixMicro())) + 3*driver.MaxAhead
			b := p.exclusive()
			b.Floor = far
			p.invalid(b, "a Floor of three hours ahead")
			b.Floor = driver.MaxFence - 1
			p.invalid(b, "a Floor just below MaxFence")
			b.Floor = 1 << 63
			p.invalid(b, "a Floor above MaxFence")
			b.Floor = 0
			if got := p.grant(b).Fence; got >= far {
				p.fail("the next fence is %d: the Floor that was refused changed it", got)
			}
		}},
		{"remembered", "a fence ahead of the clock is remembered until the clock has passed it", floor | virtual, func(p *probe) {
			a := p.exclusive()
			was := p.grant(a).Fence
			p.release(a.ID, nil)
			b := p.exclusive()
			b.Floor = was + driver.MaxAhead/2 // half an hour where fences follow the clock
			raised := p.grant(b).Fence
			p.release(b.ID, nil)
			for range 6 {
				time.Sleep(11 * time.Minute)
				p.idle()
				c := p.exclusive()
				got := p.grant(c).Fence
				p.atLeast("the fence after a while", got, raised+driver.Span)
				p.release(c.ID, nil)
				raised = got
			}
		}},
		{"idle fence", "fences rise though the key was idle for long", fence | virtual, func(p *probe) {
			var last uint64
			for _, d := range []time.Duration{time.Millisecond, time.Second, 11 * time.Minute, time.Hour, 1000 * time.Hour} {
				a := p.exclusive()
				got := p.grant(a).Fence
				if last > 0 {
					p.atLeast("the fence after a while", got, last+driver.Span)
				}
				last = got
				p.release(a.ID, nil)
				time.Sleep(d)
				p.idle()
			}
		}},
	}
}

// idle makes calls on another key, in which a store may clear up.
func (p *probe) idle() {
	for range 64 {
		a := on(p.exclusive(), p.key+"-idle")
		p.grant(a)
		p.release(a.ID, nil)
	}
}
