package drivertest

import (
	"errors"
	"time"

	"github.com/distlock/distlock/driver"
)

// fenceRules state which fence (fencing token) a grant gets.
func fenceRules() []rule {
	return []rule{
		{
			name: "fence",
			sentence: "fences of exclusive grants grow by at least Span across release, expiry " +
				"and Break",
			needs: fence,
			check: func(p *probe) {
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
					p.renew(a.ID, p.ttl, nil, nil)
					a = p.exclusive()
					next("the end of a TTL", p.grantAfter(a, p.last, p.ttl))
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
			},
		},
		{
			name: "shared fence",
			sentence: "a shared or counted grant has a fence at least Span above those of all " +
				"claims that had ended",
			needs: fence,
			check: func(p *probe) {
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
			},
		},
		{
			name:     "idle fence",
			sentence: "fences grow after the key was idle for long",
			needs:    fence | virtual,
			check: func(p *probe) {
				var last uint64
				for _, d := range []time.Duration{
					time.Millisecond, time.Second, 11 * time.Minute, time.Hour, 100 * time.Hour,
				} {
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
			},
		},
		{
			name: "no fences left",
			sentence: "if fewer than Span fences are left below MaxFence, Acquire returns " +
				"ErrUnavailable and changes nothing",
			needs: fence | eve,
			check: func(p *probe) {
				a := p.exclusive()
				if !p.has(virtual) {
					p.useUp(p.exclusive)
					p.key += "2"
					p.useUp(p.shared)
					return
				}
				if p.grant(a).Fence < driver.MaxFence-2*driver.MaxAhead {
					return // fences do not follow the clock, and no rule can use them up
				}
				p.release(a.ID, nil)
				if p.has(floor) {
					b := p.exclusive()
					b.Floor = driver.MaxFence - driver.Span - 1 // the highest valid Floor
					p.grant(b)
					p.release(b.ID, nil)
					p.unavailable(p.exclusive())
					p.grant(on(p.exclusive(), p.key+"2")) // another key has fences of its own
				}
				time.Sleep(time.Until(eveOfFences()) + 2*eveLasts)
				p.unavailable(p.exclusive())
				p.unavailable(on(p.exclusive(), p.key+"3"))
			},
		},
	}
}

// eveOfFences returns the time at which a clock in microseconds has nearly used up the fences.
// Some fences are left for eveLasts.
func eveOfFences() time.Time { return time.UnixMicro(int64(driver.MaxFence)).Add(-eveLasts) }

const eveLasts = 30 * time.Minute

// useUp raises the last fence of the key, and acquires the key until no fences are left.
func (p *probe) useUp(next func() driver.Request) {
	a := next()
	p.grant(a)
	p.release(a.ID, nil)
	p.env.Raise(p.t, p.store, p.key, driver.MaxFence-3*driver.Span)
	for range 2 {
		a = next()
		if got := p.grant(a).Fence; got > driver.MaxFence-driver.Span {
			p.wrong("granted the fence %d, though not all of its Span are below MaxFence", got)
		}
		p.release(a.ID, nil)
	}
	p.unavailable(next())
}

// unavailable makes a request that the store cannot grant because no fences are left.
func (p *probe) unavailable(r driver.Request) {
	if res, err := p.store.Acquire(p.t.Context(), r); !errors.Is(err, driver.ErrUnavailable) {
		p.wrong("Acquire: granted %v, fence %d, error %v; want ErrUnavailable", res.Granted, res.Fence, err)
	}
	p.release(r.ID, driver.ErrNotHeld)
}

// idle makes calls on another key, during which a store may clean up.
func (p *probe) idle() {
	for range 64 {
		a := on(p.exclusive(), p.key+"-idle")
		p.grant(a)
		p.release(a.ID, nil)
	}
}
