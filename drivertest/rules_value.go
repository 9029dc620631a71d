package drivertest

import (
	"bytes"
	"maps"

	"github.com/distlock/distlock/driver"
)

// valueRules state how the data of a request is stored and shown. A store without Show still shows
// it in Result.Blocker.
func valueRules() []rule {
	return []rule{
		{
			name:     "holder",
			sentence: "holder and task of claims and of entries are always shown to others",
			check: func(p *probe) {
				a := p.shared()
				a.Holder, a.Task = "host 1, \"é\"\n", "task:1"
				p.grant(a)
				p.visible(a)
				p.renew(a.ID, p.long, nil, nil)
				p.visible(a)
				if p.has(queue) {
					w := queued(p.exclusive(), p.long)
					w.Holder, w.Task = "host 2", "{task}'2'"
					p.refuse(w)
					p.same(p.refuse(p.shared()).Blocker, w)
				}
			},
		},
		{
			name: "value",
			sentence: "value and meta are kept byte by byte and shown to others, and a renewal " +
				"may change the value or clear it",
			needs: value,
			check: func(p *probe) {
				a := p.exclusive()
				a.Meta = map[string]string{"": "empty", "k": "", "é\x00": "\xff{}'\"\n", "n": "1"}
				a.Value = []byte("\x00\xff{}'\"\n\xc3\x28")
				p.grant(a)
				p.visible(a)
				p.renew(a.ID, p.long, nil, nil)
				p.visible(a)
				for _, v := range [][]byte{bytes.Repeat([]byte{0xfe, 0}, driver.MaxValue)[:driver.MaxValue], {}, []byte("last")} {
					p.renew(a.ID, p.long, v, nil)
					a.Value = v
					p.visible(a)
				}
			},
		},
		{
			name:     "no value",
			sentence: "a claim without value and meta is shown without them",
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				for _, c := range p.visible(a) {
					p.equal("kept", c.Kept, false)
				}
			},
		},
		{
			name: "copies",
			sentence: "Meta and Value of a request, a renewal and an answer belong to the " +
				"caller: a store copies them",
			needs: value,
			check: func(p *probe) {
				a := p.shared()
				a.Value, a.Meta = []byte("one"), map[string]string{"n": "1"}
				scribbled(p.grant, a)
				p.visible(a)
				for _, c := range p.visible(a) {
					scribble(c.Value, c.Meta)
					p.visible(a)
				}
				for _, v := range []string{"two", "three"} {
					sent := []byte(v)
					if v == "two" {
						p.renew(a.ID, p.long, sent, nil)
					} else {
						driver.RenewAll(p.t.Context(), p.store, []driver.Renewal{{ID: a.ID, TTL: p.long, Value: sent}})
					}
					scribble(sent, nil)
					a.Value = []byte(v)
					p.visible(a)
				}
				if !p.has(queue) {
					return
				}
				w := queued(p.exclusive(), p.long)
				for _, v := range []string{"first attempt", "second attempt"} {
					w.Value, w.Meta = []byte(v), map[string]string{"n": v}
					scribbled(p.refuse, w)
					for range 2 {
						c := p.refuse(p.shared()).Blocker
						p.same(c, w)
						scribble(c.Value, c.Meta)
					}
				}
			},
		},
	}
}

// scribbled makes the call with a copy of the data of r, and writes over the copy afterwards.
func scribbled(call func(driver.Request) driver.Result, r driver.Request) {
	sent := r
	sent.Value, sent.Meta = bytes.Clone(r.Value), maps.Clone(r.Meta)
	call(sent)
	scribble(sent.Value, sent.Meta)
}

// scribble writes over data that belongs to the caller.
func scribble(value []byte, meta map[string]string) {
	for i := range value {
		value[i] = '#'
	}
	for k := range meta {
		meta[k] = "#"
	}
}

// visible fails unless r, the only claim on its key, is shown to others by a refusal, Show and
// List.
func (p *probe) visible(r driver.Request) (cs []driver.Claim) {
	res := p.refuse(on(p.exclusive(), r.Key))
	p.names(res, r, false)
	cs = append(cs, res.Blocker)
	if p.has(show) {
		cs = append(cs, p.shows(r)...)
		p.same(cs[1], r)
	}
	if p.has(list) {
		if all := p.list(r.Key); len(all) != 1 {
			p.fail("List yields %d claims, want 1", len(all))
		} else {
			cs = append(cs, all...)
			p.same(all[0], r)
		}
	}
	return cs
}

// same fails unless a claim shows the data of the request.
func (p *probe) same(c driver.Claim, r driver.Request) {
	p.equal("key", c.Key, r.Key)
	p.equal("owner", c.Owner, driver.Tag(r.Owner))
	p.equal("holder", c.Holder, r.Holder)
	p.equal("task", c.Task, r.Task)
	p.equal("weight", c.Weight, r.Weight)
	p.equal("limit", c.Limit, r.Limit)
	if !maps.Equal(c.Meta, r.Meta) {
		p.fail("meta: got %q, want %q", c.Meta, r.Meta)
	}
	if !bytes.Equal(c.Value, r.Value) {
		p.fail("value: got %.40q of %d bytes, want %.40q of %d bytes", c.Value, len(c.Value), r.Value, len(r.Value))
	}
}
