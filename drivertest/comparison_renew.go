package drivertest

import (
	"fmt"

	"github.com/distlock/distlock/driver"
)

// renewal returns the renewal of a step for id.
func (c *comparison) renewal(s step, id driver.ID) driver.Renewal {
	r := driver.Renewal{ID: id, TTL: c.ttl(s.Life), Keep: s.Op == record}
	switch s.Value {
	case 1:
		r.Value = []byte{}
	case 2:
		c.drawn++
		r.Value = fmt.Append(nil, "value ", c.drawn)
	}
	return r
}

// renewAll renews for all owners that have a number on a key.
func (c *comparison) renewAll(s step, key string) {
	var rs []driver.Renewal
	for who := range owners {
		rs = append(rs, c.renewal(s, c.id(key, [2]int{s.Key, who})))
	}
	want := driver.RenewAll(c.ctx, c.model, rs)
	got := driver.RenewAll(c.ctx, c.store, rs)
	c.equal("how many answers RenewAll returns", len(got), len(want))
	for i, g := range got {
		c.errors("RenewAll", g.Err, want[i].Err)
		c.equal("behind", g.Behind, want[i].Behind)
	}
}

func (c *comparison) renew(r driver.Renewal) {
	want, wantErr := c.model.Renew(c.ctx, r)
	got, gotErr := c.store.Renew(c.ctx, r)
	c.errors("Renew", gotErr, wantErr)
	c.equal("behind", got, want)
}
