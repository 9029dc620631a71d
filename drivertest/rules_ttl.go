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
				// A cut takes away at most a millisecond. It is visible if two calls take less
				// time, so the fastest calls decide.
				life := p.fastest().Truncate(time.Millisecond) + 2*time.Millisecond - time.Microsecond
				life = max(life, p.store.Features().MinTTL)
				pause, rounds := life/2000, p.rounds(200) // hardly any pause; a round meets the cut by chance
				if p.has(virtual) {
					pause, rounds = life/20, 2 // all calls take the same time
				}
				for i := range rounds {
					a := on(p.exclusive(), fmt.Sprint(p.key, "-", i))
					a.TTL = life
					began := time.Now()
					if _, err := p.store.Acquire(p.t.Context(), a); err != nil {
						continue // a store may be too slow for such a life
					}
					for b := on(p.exclusive(), a.Key); time.Since(began) < life; time.Sleep(pause) {
						if p.attempt(b).Granted && p.last.ended.Sub(began) < life {
							p.wrong("Acquire(%s): granted after %v, though its blocker lives for %v",
								describe(b), p.last.ended.Sub(began), life)
						}
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
