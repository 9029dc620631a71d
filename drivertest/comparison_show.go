package drivertest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/distlock/distlock/driver"
)

// blocker fails unless a refusal names one blocker, and the end of the first of all blockers. The
// argument stood has the claims on the key before the call, then the queue, in order.
func (c *comparison) blocker(r driver.Request, got driver.Result, stood []driver.Claim) {
	waiting := slices.IndexFunc(stood, func(d driver.Claim) bool { return d.Waiting })
	if waiting < 0 {
		waiting = len(stood)
	}
	held, before := stood[:waiting], stood[waiting:]
	if i := slices.IndexFunc(before, func(d driver.Claim) bool { return d.Owner == driver.Tag(r.Owner) }); i >= 0 {
		before = before[:i]
	}
	var used int64
	for _, d := range held {
		used += d.Weight
	}
	named, blockers := before, before
	if used+r.Weight > r.Limit {
		named, blockers = held, slices.Concat(held, before)
	}
	i := slices.IndexFunc(named, func(d driver.Claim) bool { return d.Owner == got.Blocker.Owner })
	if i < 0 {
		c.fail("the blocker is %+v, want one of %+v", got.Blocker, named)
	}
	c.claims("Blocker", []driver.Claim{got.Blocker}, named[i:i+1])
	first := slices.MinFunc(blockers, func(a, b driver.Claim) int { return cmp.Compare(a.Left, b.Left) })
	if got.Retry != 0 && c.can&expiry != 0 && !c.near(got.Retry, first.Left) {
		c.fail("retry %v, want about %v", got.Retry, first.Left)
	}
}

// show compares the claims and entries on a key.
func (c *comparison) show(key string) {
	if c.can&show == 0 {
		return
	}
	want, wantErr := driver.Show(c.ctx, c.model, key)
	got, gotErr := driver.Show(c.ctx, c.store, key)
	c.errors("Show", gotErr, wantErr)
	c.claims("Show", got, want)
}

// list compares the claims and entries on all keys. The order of the keys may differ.
func (c *comparison) list() {
	if c.can&list == 0 {
		return
	}
	all := func(s driver.Store) (cs []driver.Claim) {
		for d, err := range driver.List(c.ctx, s, c.prefix) {
			if err != nil {
				c.fail("List: %v", err)
			}
			cs = append(cs, d)
		}
		slices.SortStableFunc(cs, func(a, b driver.Claim) int { return cmp.Compare(a.Key, b.Key) })
		return cs
	}
	want := all(c.model)
	c.claims("List", all(c.store), want)
}

func (c *comparison) claims(verb string, got, want []driver.Claim) {
	format := func(cs []driver.Claim) (s string) {
		for _, d := range cs {
			s += fmt.Sprintf(" [%s %d of %d, waiting %v, kept %v]", d.Owner, d.Weight, d.Limit, d.Waiting, d.Kept)
		}
		return s
	}
	c.equal(verb, format(got), format(want))
	for i, g := range got {
		w := want[i]
		c.equal(verb+": key", g.Key, w.Key)
		c.equal(verb+": holder", g.Holder, w.Holder)
		c.equal(verb+": task", g.Task, w.Task)
		if !maps.Equal(g.Meta, w.Meta) || !bytes.Equal(g.Value, w.Value) {
			c.fail("%s: meta %v, value %q; want %v, %q", verb, g.Meta, g.Value, w.Meta, w.Value)
		}
		if !c.near(g.Held, w.Held) || c.can&expiry != 0 && !c.near(g.Left, w.Left) {
			c.fail("%s: held %v, left %v; want about %v, %v", verb, g.Held, g.Left, w.Held, w.Left)
		}
		f, known := c.keys[g.Key].live[g.Owner]
		switch {
		case g.Waiting || c.can&fence == 0:
			c.equal(verb+": fence", g.Fence, uint64(0))
		case known:
			c.equal(verb+": fence", g.Fence, f)
		}
	}
}
