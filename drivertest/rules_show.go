package drivertest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// showRules state what a store shows, and what Break and RenewAll do.
func showRules() []rule {
	return []rule{
		{
			name:     "show",
			sentence: "Show returns the live claims, oldest first, then the queue in order",
			needs:    show,
			check: func(p *probe) {
				p.equal("how many claims and entries are on an idle key", len(p.show(p.key)), 0)
				rs := []driver.Request{p.shared(), p.shared(), p.shared()}
				var fences []uint64
				var born []span
				for _, r := range rs {
					fences, born = append(fences, p.grant(r).Fence), append(born, p.last)
				}
				if p.has(queue) {
					for range 3 {
						rs = append(rs, queued(p.exclusive(), p.long))
						p.refuse(rs[len(rs)-1])
						fences, born = append(fences, 0), append(born, p.last)
					}
				}
				p.wait(0.5)
				p.grant(rs[0]) // it stays the oldest
				again := p.last
				for i, c := range p.shows(rs...) {
					p.equal("key", c.Key, p.key)
					p.equal("weight", c.Weight, rs[i].Weight)
					p.equal("limit", c.Limit, rs[i].Limit)
					p.equal("waiting", c.Waiting, i > 2)
					p.equal("fence", c.Fence, fences[i])
					if least, most := p.since(born[i]); c.Held < least-p.grain || c.Held > most+p.grain {
						p.fail("held %v, want about %v", c.Held, least)
					}
					if i == 0 {
						born[i] = again
					}
					if p.has(expiry) {
						p.remaining("left", c.Left, born[i], p.long)
					}
				}
				p.release(rs[1].ID, nil)
				p.shows(append(rs[:1:1], rs[2:]...)...)
			},
		},
		{
			name:     "ended is not shown",
			sentence: "a claim that has expired or was broken, and an entry that has expired, is not shown",
			needs:    show,
			check: func(p *probe) {
				none := func() {
					p.equal("how many are shown", len(p.show(p.key)), 0)
					if p.has(list) {
						p.equal("how many are listed", len(p.list(p.key)), 0)
					}
				}
				if p.has(expiry) {
					p.grant(p.short(p.exclusive()))
					p.while(p.last, p.ttl, func() {
						if p.has(queue) {
							p.refuse(queued(p.exclusive(), p.ttl))
						}
					})
					p.outlive(p.last, p.ttl)
					none()
				}
				if p.has(breaks) {
					a := p.exclusive()
					p.grant(a)
					p.broken(p.key, a)
					none()
				}
			},
		},
		{
			name: "held",
			sentence: "Held counts from the grant of a claim and from the arrival of an entry, " +
				"through renewals and repeated attempts",
			needs: show,
			check: func(p *probe) {
				a, w := p.exclusive(), queued(p.exclusive(), p.long)
				since := func(c driver.Claim, born span) {
					if least, most := p.since(born); c.Held < least-p.grain || c.Held > most+p.grain {
						p.fail("%s: held %v, want about %v", c.Owner, c.Held, least)
					}
				}
				p.grant(a)
				granted, joined := p.last, span{}
				if p.has(queue) {
					p.refuse(w)
					joined = p.last
				}
				p.wait(0.8)
				p.renew(a.ID, p.long, nil, nil)
				if p.has(keep) {
					p.renewal(driver.Renewal{ID: a.ID, TTL: p.long, Keep: true}, nil)
				}
				if !p.has(queue) {
					since(p.shows(a)[0], granted)
					return
				}
				p.refuse(w)
				cs := p.shows(a, w)
				since(cs[0], granted)
				since(cs[1], joined)
				p.release(a.ID, nil)
				granted = p.last // a store may grant by itself
				p.grant(w)
				granted.ended = p.last.ended
				since(p.shows(w)[0], granted)
			},
		},
		{
			name: "list",
			sentence: "List yields the claims and the queues of all keys that begin with the " +
				"prefix, those of a key together",
			needs: list,
			check: func(p *probe) {
				names := []string{"a", "a%b", "a_b", "aXb", "a*b", "A", "b", "ab", "a/b", "a\\b", "a{b}"}
				each := 2
				for _, n := range names {
					p.grant(on(p.shared(), p.key+n))
					p.grant(on(p.shared(), p.key+n))
					if p.has(queue) {
						p.refuse(on(queued(p.exclusive(), p.long), p.key+n))
						each = 3
					}
				}
				for _, prefix := range []string{"", "a", "a%", "a_", "a*", "a\\", "a{", "A", "ab", "b", "c", "%", "_"} {
					var want int
					for _, n := range names {
						if strings.HasPrefix(n, prefix) {
							want += each
						}
					}
					p.equal(fmt.Sprintf("how many claims List(%q) yields", prefix), len(p.list(p.key+prefix)), want)
				}
				for range driver.List(p.t.Context(), p.store, p.key) {
					break // a caller may stop
				}
				p.grant(on(p.shared(), p.key+"c"))
			},
		},
		{
			name:     "owner",
			sentence: "an owner is never shown, only its Tag is",
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				if p.has(queue) {
					b = queued(b, p.long)
				}
				p.grant(a)
				seen := []any{p.refuse(b), p.refuse(p.exclusive())}
				note := func(_ any, err error) { seen = append(seen, err) }
				note(nil, p.store.Release(p.t.Context(), p.exclusive().ID))
				note(p.store.Renew(p.t.Context(), driver.Renewal{ID: p.exclusive().ID, TTL: p.ttl}))
				bad := a
				bad.Weight = 0
				note(p.store.Acquire(p.t.Context(), bad))
				note(p.store.Acquire(p.endedCtx(), a))
				note(nil, p.store.Release(p.endedCtx(), driver.ID{Key: p.key, Owner: b.Owner}))
				if p.has(show) {
					seen = append(seen, p.show(p.key))
				}
				if p.has(list) {
					seen = append(seen, p.list(p.key))
				}
				if p.has(breaks) {
					cs, err := driver.Break(p.t.Context(), p.store, p.key, 0, "test")
					seen = append(seen, cs, err)
				}
				_, err := p.store.Renew(p.t.Context(), driver.Renewal{ID: a.ID, TTL: p.long})
				note(nil, p.store.Release(p.t.Context(), a.ID))
				note(nil, p.store.Release(p.t.Context(), a.ID))
				for _, what := range append(seen, err) {
					text := fmt.Sprintf("%+v", what)
					if strings.Contains(text, a.Owner) || strings.Contains(text, b.Owner) {
						p.fail("an owner is shown: %s", text)
					}
				}
			},
		},
		{
			name:     "break",
			sentence: "Break ends every claim on the key, returns them, and leaves the queue",
			needs:    breaks,
			check: func(p *probe) {
				a, b, other := p.shared(), p.shared(), on(p.exclusive(), p.key+"2")
				p.grant(other)
				p.broken(p.key)
				p.grant(a)
				p.grant(b)
				w := p.exclusive()
				if p.has(queue) {
					w = queued(w, p.long)
				}
				p.refuse(w)
				p.broken(p.key, a, b)
				for _, r := range []driver.Request{a, b} {
					_, err := p.store.Renew(p.t.Context(), driver.Renewal{ID: r.ID, TTL: p.long})
					var be *driver.BrokenError
					if !errors.Is(err, driver.ErrNotHeld) || errors.As(err, &be) && be.Reason != reason {
						p.fail("Renew of a broken claim: error %v, want ErrNotHeld with the reason if any", err)
					}
					p.release(r.ID, driver.ErrNotHeld)
				}
				p.refuse(on(p.exclusive(), other.Key))
				if p.has(queue) {
					p.refuse(p.exclusive())
				}
				p.grant(w)
				p.renew(w.ID, p.long, nil, nil)
			},
		},
		{
			name: "break up to",
			sentence: "Break with a bound ends the claims whose fence is at most the bound, and " +
				"no others",
			needs: breaks | fence,
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				old := p.grant(a).Fence
				if old > 1 {
					p.brokenUpTo(p.key, old-1)
				}
				p.renew(a.ID, p.long, nil, nil)
				p.brokenUpTo(p.key, old, a)
				p.renew(a.ID, p.long, nil, driver.ErrNotHeld)
				next := p.grant(b).Fence
				p.brokenUpTo(p.key, old)
				p.brokenUpTo(p.key, next-1)
				p.renew(b.ID, p.long, nil, nil)
				p.brokenUpTo(p.key, next+1, b)

				// Live claims of a lower weight may have the same fence, and end together.
				r1, r2 := p.shared(), p.shared()
				low, high := p.grant(r1).Fence, p.grant(r2).Fence
				if low < high {
					p.brokenUpTo(p.key, low, r1)
					p.refuse(p.exclusive())
					p.renew(r2.ID, p.long, nil, nil)
					p.brokenUpTo(p.key, high, r2)
				} else {
					p.brokenUpTo(p.key, max(low, high), r1, r2)
				}
				p.grant(p.exclusive())
			},
		},
		{
			name: "renew all",
			sentence: "RenewAll returns one answer for each, in order, and a claim that has " +
				"ended affects no other",
			check: func(p *probe) {
				var rs []driver.Renewal
				for i := range 20 {
					r := on(p.exclusive(), fmt.Sprint(p.key, i))
					if i%3 != 1 {
						p.grant(r)
					}
					if i%4 == 0 && p.has(queue) {
						p.attempt(queued(on(p.exclusive(), r.Key), p.long))
					}
					rs = append(rs, driver.Renewal{ID: r.ID, TTL: p.long})
				}
				rs[7].TTL = -1 // invalid: it affects no other either
				for i, g := range p.renewAll(rs) {
					var want error
					behind := 0
					switch {
					case i == 7:
						want = driver.ErrInvalid
					case i%3 == 1:
						want = driver.ErrNotHeld
					case i%4 == 0 && p.has(queue):
						behind = 1
					}
					if !errors.Is(g.Err, want) {
						p.fail("answer %d: error %v, want %v", i, g.Err, want)
					}
					p.equal(fmt.Sprintf("behind, in answer %d", i), g.Behind, behind)
				}
				p.equal("how many answers to nothing", len(driver.RenewAll(p.t.Context(), p.store, nil)), 0)
			},
		},
		{
			name: "renew all, one twice",
			sentence: "a claim that RenewAll gets twice in one call has two answers that are alike: " +
				"both renewed, or both not held",
			check: func(p *probe) {
				held, free := p.exclusive(), on(p.exclusive(), p.key+"/free")
				p.grant(held)
				one, none := driver.Renewal{ID: held.ID, TTL: p.long}, driver.Renewal{ID: free.ID, TTL: p.long}
				for i, g := range p.renewAll([]driver.Renewal{one, none, one, none}) {
					var want error
					if i%2 == 1 {
						want = driver.ErrNotHeld
					}
					if !errors.Is(g.Err, want) {
						p.fail("answer %d: error %v, want %v", i, g.Err, want)
					}
				}
				p.renew(held.ID, p.long, nil, nil)
			},
		},
		{
			name:     "keep all",
			sentence: "RenewAll keeps the claims that have Keep, and no others",
			needs:    keep,
			check: func(p *probe) {
				var rs []driver.Renewal
				for i := range 3 {
					r := on(p.exclusive(), fmt.Sprint(p.key, i))
					p.grant(r)
					rs = append(rs, driver.Renewal{ID: r.ID, TTL: p.long, Keep: i == 1})
				}
				for i, g := range p.renewAll(rs) {
					p.equal(fmt.Sprintf("the error of answer %d", i), g.Err, nil)
					p.equal("kept", p.refuse(on(p.exclusive(), rs[i].Key)).Blocker.Kept, rs[i].Keep)
				}
			},
		},
	}
}

// list returns the claims of all keys with a prefix.
func (p *probe) list(prefix string) (cs []driver.Claim) {
	began := time.Now()
	seen := map[string]bool{}
	for c, err := range driver.List(p.t.Context(), p.store, prefix) {
		p.last = span{began, time.Now()}
		switch {
		case err != nil:
			p.fail("List(%q): %v", prefix, err)
		case !strings.HasPrefix(c.Key, prefix):
			p.fail("List(%q) yields %q", prefix, c.Key)
		case seen[c.Key] && cs[len(cs)-1].Key != c.Key:
			p.fail("List(%q) yields %q in two parts, want it together", prefix, c.Key)
		}
		seen[c.Key] = true
		cs = append(cs, c)
	}
	p.last = span{began, time.Now()}
	return cs
}

// reason is the reason that holders get when the suite breaks their claims.
const reason = "a rule is tested: \"é\""

// broken breaks all claims on a key, which must be those of these owners.
func (p *probe) broken(key string, rs ...driver.Request) { p.brokenUpTo(key, 0, rs...) }

// brokenUpTo breaks the claims on a key up to a fence, which must be those of these owners.
func (p *probe) brokenUpTo(key string, upTo uint64, rs ...driver.Request) {
	began := time.Now()
	cs, err := driver.Break(p.t.Context(), p.store, key, upTo, reason)
	p.last = span{began, time.Now()}
	if err != nil {
		p.fail("Break: %v", err)
	}
	got, want := map[string]bool{}, map[string]bool{}
	for _, c := range cs {
		got[c.Owner] = true
	}
	for _, r := range rs {
		want[driver.Tag(r.Owner)] = true
	}
	if len(cs) != len(rs) || !maps.Equal(got, want) {
		p.fail("Break ended %d claims %v, want %d claims %v", len(cs), got, len(rs), want)
	}
}
