package drivertest

import (
	"fmt"
	"math"
	"time"

	"github.com/distlock/distlock/driver"
)

// ttlRules state which TTLs a store supports.
func ttlRules() []rule {
	return []rule{
		{
			name: "odd TTL",
			sentence: "no life is rounded down: of a claim that is granted, granted again or " +
				"renewed, of a record or of an entry",
			needs: expiry,
			check: func(p *probe) {
				// A TTL of a nanosecond below a round number loses most.
				life := max(p.ttl, min(2*p.ttl, p.long)-1)
				// Each on a key of its own, and all of them in the same time.
				key, all := p.key, p.oddLives()
				born := make([]span, len(all))
				for i, give := range all {
					p.key = fmt.Sprint(key, "-", i)
					born[i] = give(life)
				}
				for i := range all {
					p.key = fmt.Sprint(key, "-", i)
					time.Sleep(time.Until(born[i].began.Add(life - p.grain)))
					p.while(born[i], life, func() { p.refuse(p.exclusive()) })
				}
				for i := range all {
					p.key = fmt.Sprint(key, "-", i)
					p.grantAfter(p.exclusive(), born[i], life)
				}
			},
		},
		{
			name:     "odd milliseconds",
			sentence: "no life is cut to whole milliseconds",
			needs:    expiry,
			check: func(p *probe) {
				// Held and Left of a claim on several nodes may be those of two nodes, which
				// granted it at different times. Such a store does not declare AnyServer.
				if p.has(show) && p.store.Features().AnyServer {
					p.storedWhole()
				}
				// A cut takes away almost a millisecond of this life. A round shows it, or shows
				// that there is none, if its two calls together take less than that. A busy
				// machine needs more rounds. If no round succeeds, the calls are too slow to see a
				// cut. In virtual time all rounds take the same.
				least := max(p.fastest(), p.store.Features().MinTTL)
				life := least.Truncate(time.Millisecond) + 2*time.Millisecond - time.Microsecond
				began := time.Now()
				most := math.MaxInt
				if p.has(virtual) {
					most = 20
				}
				for i, shown := 0, 0; i < most && shown < 5 && time.Since(began) < 3*time.Second; i++ {
					if p.livesWhole(fmt.Sprint(p.key, "-", i), life) {
						shown++
					}
				}
			},
		},
		{
			name: "huge TTL",
			sentence: "every TTL up to MaxTTL is supported, without MaxTTL up to the longest " +
				"Duration, and a longer one is ErrInvalid",
			check: func(p *probe) {
				longest := p.store.Features().MaxTTL
				p.wait(0.5) // the store's clock is not at 0
				for _, ttl := range []time.Duration{
					longest, 25 * time.Hour, 366 * 24 * time.Hour, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64,
				} {
					a := on(p.exclusive(), p.key+ttl.String())
					if a.TTL = ttl; ttl == 0 {
						continue
					}
					b := on(p.exclusive(), a.Key)
					if longest > 0 && ttl > longest {
						p.invalid(a, "a TTL above MaxTTL")
						p.grant(b)
						p.invalidRenewal(driver.Renewal{ID: b.ID, TTL: ttl}, "a TTL above MaxTTL")
						continue
					}
					p.grant(a)
					for range 2 {
						p.while(p.last, ttl, func() {
							p.wait(0.4)
							if left := p.refuse(b).Retry; p.has(expiry) && left > 0 && left < min(ttl/2, lifetime) {
								p.wrong("a claim with the TTL %v ends in %v", ttl, left)
							}
							p.renew(a.ID, ttl, nil, nil)
						})
					}
					p.while(p.last, ttl, func() { p.release(a.ID, nil) })
				}
			},
		},
	}
}

// lifetime is a TTL that no holder outlives: a store may shorten a longer one to it.
const lifetime = 50 * 366 * 24 * time.Hour

// storedWhole compares the TTL of a claim with its Held and Left, whose sum does not depend on the
// time that calls take. A store that reports whole milliseconds shows nothing by it.
func (p *probe) storedWhole() {
	a := on(p.exclusive(), p.key+"-stored")
	a.TTL = p.long.Truncate(time.Millisecond) - time.Microsecond
	p.grant(a)
	for range 5 {
		for _, c := range p.show(a.Key) {
			fine := c.Held%time.Millisecond > 0 && c.Left%time.Millisecond > 0
			if total := c.Held + c.Left; fine && total < a.TTL-time.Millisecond/2 {
				p.wrong("a claim with the TTL %v is held for %v and has %v left: %v in all", a.TTL, c.Held, c.Left, total)
			}
		}
	}
	p.release(a.ID, nil)
}

// livesWhole acquires key for life, which is a microsecond below whole milliseconds, and attempts
// it again until life is over. It reports whether an attempt was refused at a time at which life
// without its last millisecond had certainly ended.
func (p *probe) livesWhole(key string, life time.Duration) (shown bool) {
	a, b := on(p.exclusive(), key), on(p.exclusive(), key)
	a.TTL = life
	born := span{began: time.Now()}
	if _, err := p.store.Acquire(p.t.Context(), a); err != nil {
		return false // a store may be too slow for such a life
	}
	born.ended = time.Now()
	pause := life / 2000 // a longer one may take a millisecond more than it should
	if p.has(virtual) {
		pause = life / 20
	}
	cut := life.Truncate(time.Millisecond)
	time.Sleep(time.Until(born.began.Add(cut - 2*time.Millisecond)))
	for ; time.Since(born.began) < life; time.Sleep(pause) {
		p.last.began = time.Now()
		res, err := p.store.Acquire(p.t.Context(), b)
		p.last.ended = time.Now()
		switch least, most := p.since(born); {
		case err != nil, most >= life:
			return false // a store may be too slow for so many calls
		case res.Granted:
			p.wrong("Acquire(%s): granted after %v, though its blocker lives for %v", describe(b), most, life)
		case least >= cut:
			return true
		}
	}
	return false
}

// oddLives returns the ways to start a life on the probe's key. Each returns the call that started
// it.
func (p *probe) oddLives() []func(life time.Duration) span {
	held := func() driver.Request {
		a := p.exclusive()
		p.grant(a)
		return a
	}
	all := []func(time.Duration) span{
		func(life time.Duration) span {
			a := p.exclusive()
			a.TTL = life
			p.grant(a)
			return p.last
		},
		func(life time.Duration) span {
			a := held()
			a.TTL = life
			p.grant(a)
			return p.last
		},
		func(life time.Duration) span {
			p.renew(held().ID, life, nil, nil)
			return p.last
		},
	}
	if p.has(keep) {
		all = append(all, func(life time.Duration) span {
			p.renewal(driver.Renewal{ID: held().ID, TTL: life, Keep: true}, nil)
			return p.last
		})
	}
	if p.has(queue) {
		all = append(all, func(life time.Duration) span {
			a := held()
			p.refuse(queued(p.exclusive(), life))
			born := p.last
			p.release(a.ID, nil)
			return born
		}, func(life time.Duration) span {
			a, w := held(), queued(p.exclusive(), p.long)
			p.refuse(w)
			p.refuse(queued(w, life))
			born := p.last
			p.release(a.ID, nil)
			return born
		})
	}
	return all
}
