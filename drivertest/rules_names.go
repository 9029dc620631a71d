package drivertest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
)

// nameRules state which keys, owners and requests are valid.
func nameRules() []rule {
	return []rule{
		{
			name: "opaque names",
			sentence: "two keys are the same if their bytes are the same, and every byte string " +
				"is a key",
			check: func(p *probe) {
				var held []driver.Request
				for _, name := range nastyNames() {
					r := on(p.exclusive(), name)
					if res := p.attempt(r); !res.Granted {
						p.fail("Acquire(%q): refused by a claim on %q, want granted", name, res.Blocker.Key)
					}
					held = append(held, r)
				}
				for _, r := range held {
					p.equal("the blocker's key", p.refuse(on(p.exclusive(), r.Key)).Blocker.Key, r.Key)
					p.renew(r.ID, p.long, nil, nil)
					if !p.has(show) {
						continue
					}
					cs := p.show(r.Key)
					p.equal("how many claims are shown on "+r.Key, len(cs), 1)
					p.equal("the key shown", cs[0].Key, r.Key)
					p.equal("the owner shown", cs[0].Owner, driver.Tag(r.Owner))
				}
				for _, r := range held {
					p.release(r.ID, nil)
				}
				for _, r := range held {
					p.release(r.ID, driver.ErrNotHeld)
					p.grant(on(p.exclusive(), r.Key))
				}
			},
		},
		{
			name:     "opaque owners",
			sentence: "owners are compared byte by byte",
			check: func(p *probe) {
				a := p.exclusive()
				a.Owner = strings.ToLower(a.Owner)
				p.grant(a)
				for _, owner := range []string{
					strings.ToUpper(a.Owner), a.Owner + " ", " " + a.Owner, a.Owner + "\x00", a.Owner[1:], "%", "*", "'",
				} {
					id := driver.ID{Key: p.key, Owner: owner}
					p.release(id, driver.ErrNotHeld)
					p.renew(id, p.ttl, nil, driver.ErrNotHeld)
				}
				p.refuse(p.exclusive())
				p.release(a.ID, nil)
			},
		},
		{
			name: "longest texts",
			sentence: "an owner, a holder, a task and metadata of the longest size are stored " +
				"and shown whole",
			check: func(p *probe) {
				a := p.exclusive()
				a.Owner += strings.Repeat("o", driver.MaxOwner-len(a.Owner))
				a.Holder, a.Task = strings.Repeat("h", driver.MaxHolder), strings.Repeat("p", driver.MaxHolder)
				if p.has(value) {
					a.Meta = map[string]string{}
					for i := range 16 {
						k := fmt.Sprint("k", i)
						a.Meta[k] = strings.Repeat("m", driver.MaxMeta/16-len(k))
					}
				}
				p.grant(a)
				p.visible(a)
				p.release(driver.ID{Key: a.Key, Owner: a.Owner[:driver.MaxOwner-1]}, driver.ErrNotHeld)
				p.renew(a.ID, p.long, nil, nil)
				p.release(a.ID, nil)
			},
		},
		{
			name:     "invalid key",
			sentence: "an invalid key has no claims: Show, List and Break return none and no error",
			check: func(p *probe) {
				for _, name := range []string{"", strings.Repeat("k", driver.MaxKey+1)} {
					if p.has(show) {
						p.equal("how many claims are shown", len(p.show(name)), 0)
					}
					if p.has(list) && name != "" {
						p.equal("how many claims are listed", len(p.list(name)), 0)
					}
					if p.has(breaks) {
						p.broken(name)
					}
					driver.Watch(p.endedCtx(), p.store, driver.ID{Key: name, Owner: "nobody"})
				}
			},
		},
		{
			name: "bad names",
			sentence: "an empty key, a key over MaxKey bytes and an empty owner are ErrInvalid, " +
				"and ErrNotHeld for Release",
			check: func(p *probe) {
				for _, name := range []string{
					"", strings.Repeat("k", driver.MaxKey+1), strings.Repeat("é", driver.MaxKey/2+1),
				} {
					p.invalid(on(p.exclusive(), name), "a key of a wrong length")
					p.invalidRenewal(driver.Renewal{ID: on(p.exclusive(), name).ID, TTL: p.ttl}, "a key of a wrong length")
					p.release(on(p.exclusive(), name).ID, driver.ErrNotHeld)
				}
				r := p.exclusive()
				r.Owner = ""
				p.invalid(r, "an empty owner")
				p.invalidRenewal(driver.Renewal{ID: r.ID, TTL: p.ttl}, "an empty owner")
				p.release(r.ID, driver.ErrNotHeld)
				p.grant(p.exclusive())
			},
		},
		{
			name:     "invalid",
			sentence: "a request that breaks a rule is ErrInvalid and changes nothing",
			check: func(p *probe) {
				free, held := p.key, p.exclusive()
				held.Key = p.key + "2"
				p.grant(held)
				for mistake, bend := range p.bends() {
					r := on(p.exclusive(), free)
					bend(&r)
					p.invalid(r, mistake)
					r = held
					bend(&r)
					p.invalid(r, mistake+", on a claim that is held")
					if p.has(queue) {
						r = queued(on(p.exclusive(), held.Key), p.long)
						if bend(&r); r.QueueTTL < 0 {
							r.Owner = held.Owner
						}
						p.invalid(r, mistake+", with QueueTTL")
					}
				}
				if res := p.grant(held); p.has(queue) {
					p.equal("behind", res.Behind, 0)
				}
				p.equal("used", p.refuse(on(p.exclusive(), held.Key)).Used, driver.Whole)
				p.equal("used", p.grant(p.shared()).Used, int64(1))
			},
		},
		{
			name:     "invalid renewal",
			sentence: "a renewal that breaks a rule is ErrInvalid and changes nothing",
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				for _, ttl := range p.badTTLs() {
					p.invalidRenewal(driver.Renewal{ID: a.ID, TTL: ttl}, "TTL "+ttl.String())
				}
				if p.has(value) {
					p.invalidRenewal(driver.Renewal{ID: a.ID, TTL: p.ttl, Value: make([]byte, driver.MaxValue+1)}, "a value over MaxValue")
				}
				p.refuse(p.exclusive())
				p.renew(a.ID, p.long, nil, nil)
			},
		},
	}
}

// nastyNames returns keys that a careless store confuses, with each other or with its own keys.
func nastyNames() []string {
	return []string{
		"a", "A", "a/", "/a", "a//b", "a/b", "a/./b", "a/../b", "..", ".", "/", "/etc/x", `a\b`,
		"é", "e\u0301", "É", "ß", "ss", "İ", "i", "ſ", "s", "😀",
		" ", "  ", "a ", " a", "a\t", "a\n", "a\r\n", "\ufeffa", "a\u200b", "\u202ea", "\u2028",
		"\x00", "a\x00", "a\x00b", "\xff", "a\xff", "\xc3\x28", "\xed\xa0\x80", "\ufffd", "\x1b[31m",
		"{", "}", "{}", "{a}", "{a}b", "a{b}c", "}{", "{{a}}", "*", "?", "[a]", "a*", "%", "%61", "%2F", "%%", "a%",
		"_", "'", `"`, "`", ";--", "'; drop table claims; --", "$(x)", "${x}", "$1", "a:b", "a::b", ":", "a,b", "a|b", "#", "a#",
		"~", "~~", "~sem/a", "~~sem/a", "0", "00", "1", "1e0", "-1", "true", "null", "NULL", "nil", "\\x61",
		"a:line", "a:last", "a:fence", "a/claims", "a/line",
		strings.Repeat("k", driver.MaxKey), strings.Repeat("k", driver.MaxKey-1), strings.Repeat("k", driver.MaxKey-1) + "K",
		strings.Repeat("😀", driver.MaxKey/4), strings.Repeat("\xff", driver.MaxKey), strings.Repeat("{", driver.MaxKey),
	}
}

// bends returns ways to break a rule of Request.
func (p *probe) bends() map[string]func(*driver.Request) {
	bends := map[string]func(*driver.Request){
		"weight 0":          func(r *driver.Request) { r.Weight = 0 },
		"weight -1":         func(r *driver.Request) { r.Weight = -1 },
		"weight over limit": func(r *driver.Request) { r.Weight = driver.Whole + 1 },
		"QueueTTL -1":       func(r *driver.Request) { r.QueueTTL = -1 },

		"an owner over MaxOwner":  func(r *driver.Request) { r.Owner = strings.Repeat("o", driver.MaxOwner+1) },
		"a holder over MaxHolder": func(r *driver.Request) { r.Holder = strings.Repeat("h", driver.MaxHolder+1) },
		"a task over MaxHolder":   func(r *driver.Request) { r.Task = strings.Repeat("p", driver.MaxHolder+1) },
	}
	for _, ttl := range p.badTTLs() {
		bends["TTL "+ttl.String()] = func(r *driver.Request) { r.TTL = ttl }
	}
	if p.has(count) {
		bends["limit 0"] = func(r *driver.Request) { r.Weight, r.Limit = 1, 0 }
		bends["limit -1"] = func(r *driver.Request) { r.Weight, r.Limit = 1, -1 }
		bends["limit over Whole"] = func(r *driver.Request) { r.Weight, r.Limit = 1, driver.Whole+1 }
		bends["weight over a small limit"] = func(r *driver.Request) { r.Weight, r.Limit = 4, 3 }
		bends["limit of MaxInt64"] = func(r *driver.Request) { r.Weight, r.Limit = math.MaxInt64, math.MaxInt64 }
	}
	if p.has(value) {
		bends["metadata over MaxMeta"] = func(r *driver.Request) {
			r.Meta = map[string]string{"k": strings.Repeat("m", driver.MaxMeta)}
		}
		bends["a value over MaxValue"] = func(r *driver.Request) { r.Value = make([]byte, driver.MaxValue+1) }
	}
	return bends
}

func (p *probe) badTTLs() []time.Duration {
	bad := []time.Duration{0, -1, -time.Hour, math.MinInt64}
	f := p.store.Features()
	if f.MinTTL > 1 {
		bad = append(bad, f.MinTTL-1)
	}
	if f.MaxTTL > 0 {
		bad = append(bad, f.MaxTTL+1)
	}
	return bad
}

// invalidRenewal makes a renewal with a mistake, which must be ErrInvalid.
func (p *probe) invalidRenewal(r driver.Renewal, mistake string) {
	if _, err := p.store.Renew(p.t.Context(), r); !errors.Is(err, driver.ErrInvalid) {
		p.wrong("Renew with %s: error %v, want ErrInvalid", mistake, err)
	}
}
