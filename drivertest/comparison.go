package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A comparison is a store and its model, store/mem.
type comparison struct {
	ctx          context.Context
	store, model driver.Store
	can          need
	unit, grain  time.Duration
	began        time.Time
	step         time.Time // when the step began
	prefix       string

	drawn    int                          // number of different requests so far
	requests map[driver.ID]driver.Request // the last request of each owner
	tags     map[string]driver.ID         // by the owner's tag
	who      map[[2]int]driver.ID         // the owner with this number on this key, live or not
	old      map[[2]int]driver.ID         // the owner that had the number before
	keys     map[string]*numbers
}

// numbers are the fences of a key.
type numbers struct {
	live  map[string]uint64 // by owner's tag
	any   uint64            // the highest that was assigned
	ended uint64            // the highest of a claim that has ended
}

func newComparison(t testing.TB, env Env) *comparison {
	s := env.Open(t)
	c := &comparison{
		ctx: t.Context(), store: s, model: mem.New(), unit: env.unit(s.Features()), grain: env.Grain, prefix: rand.Text(),
		requests: map[driver.ID]driver.Request{}, tags: map[string]driver.ID{},
		who: map[[2]int]driver.ID{}, old: map[[2]int]driver.ID{}, keys: map[string]*numbers{},
	}
	c.can = abilities(c.ctx, env, s, c.prefix)
	c.began = time.Now()
	return c
}

// do makes one step on both, and compares everything that is visible afterwards.
func (c *comparison) do(s step) {
	c.period()
	key := fmt.Sprint(c.prefix, "-", s.Key)
	if c.keys[key] == nil {
		c.keys[key] = &numbers{live: map[string]uint64{}}
	}
	c.retire(key)
	switch at := [2]int{s.Key, s.Who}; s.Op {
	case advance:
		if c.can&expiry != 0 || c.can&queue != 0 {
			time.Sleep(time.Duration(s.Life) * c.unit)
			c.period()
		}
	case acquire:
		c.acquire(c.request(s, key, at))
	case renew, record:
		c.renew(c.renewal(s, c.id(key, at)))
	case renewAll:
		c.renewAll(s, key)
	case release:
		c.release(c.id(key, at))
	case stale:
		if id := c.old[at]; id.Owner != "" {
			c.release(id)
			c.renew(driver.Renewal{ID: id, TTL: c.ttl(s.Life)})
		}
	case smash:
		c.smash(key)
	}
	for _, k := range slices.Sorted(maps.Keys(c.keys)) {
		c.follow(k, "", math.MaxUint64)
		c.show(k)
		c.retire(k)
	}
	if s.Op == look {
		c.list()
	}
	if !c.inTime() {
		panic(slow{})
	}
}

// id returns the owner that has this number now.
func (c *comparison) id(key string, at [2]int) driver.ID {
	if id, ok := c.who[at]; ok {
		return id
	}
	return driver.ID{Key: key, Owner: rand.Text()}
}

// request returns the request of a step for the owner with a number. If the owner holds a claim,
// the request may lower its weight and changes nothing else. If it has no QueueTTL, the owner's
// queue entry stays as it was.
func (c *comparison) request(s step, key string, at [2]int) driver.Request {
	r := c.requests[c.who[at]]
	claim, live := c.stands(c.model, r.ID)
	if !live {
		c.old[at] = c.who[at]
		r = driver.Request{ID: driver.ID{Key: key, Owner: rand.Text()}}
	}
	c.drawn++
	r.Weight, r.Limit = s.Weight, s.Limit
	r.Holder, r.Task = fmt.Sprint("holder ", c.drawn), fmt.Sprint("task ", c.drawn)
	if c.can&value != 0 {
		r.Value, r.Meta = []byte(r.Holder), map[string]string{"who": r.Holder}
	}
	r.TTL, r.QueueTTL, r.Floor = c.ttl(s.Life), 0, 0
	if s.QueueTTL > 0 {
		r.QueueTTL = c.life(s.QueueTTL)
	}
	if s.Floor > 0 {
		r.Floor = c.keys[key].any + uint64(s.Floor)*driver.Span
	}
	c.who[at], c.tags[driver.Tag(r.Owner)] = r.ID, r.ID
	if !live || !claim.Waiting || r.QueueTTL > 0 {
		c.requests[r.ID] = r
	}
	return r
}

func (c *comparison) acquire(r driver.Request) {
	got, gotErr := c.store.Acquire(c.ctx, r)
	first := uint64(math.MaxUint64)
	if got.Granted {
		first = got.Fence
	}
	c.follow(r.Key, r.Owner, first) // a store may grant the head of the queue before it answers
	before, err := driver.Show(c.ctx, c.model, r.Key)
	if err != nil {
		c.fail("the model: %v", err)
	}
	want, wantErr := c.model.Acquire(c.ctx, c.known(r))
	c.errors("Acquire", gotErr, wantErr)
	c.equal("granted", got.Granted, want.Granted)
	if got.Fresh && !want.Fresh { // false carries no information
		c.fail("fresh, though the owner had the claim or was refused")
	}
	c.equal("used", got.Used, want.Used)
	c.equal("ahead", got.Ahead, want.Ahead)
	c.equal("behind", got.Behind, want.Behind)
	if got.Granted {
		c.fence(r, got.Fence)
		return
	}
	c.equal("fence of a refusal", got.Fence, uint64(0))
	c.blocker(r, got, before)
}

// known returns r for the model. The fences of the two stores need not be alike, so the model gets
// no Floor.
func (c *comparison) known(r driver.Request) driver.Request {
	r.Floor = 0
	return r
}

// fence checks the fence of a grant.
func (c *comparison) fence(r driver.Request, f uint64) {
	if c.can&fence == 0 {
		c.equal("fence", f, uint64(0))
		return
	}
	n, tag := c.keys[r.Key], driver.Tag(r.Owner)
	was, again := n.live[tag]
	least := n.ended + driver.Span
	if r.Weight == driver.Whole {
		least = n.any + driver.Span
	}
	switch {
	case again && f != max(was, r.Floor):
		c.fail("granted again with the fence %d, was %d, Floor %d", f, was, r.Floor)
	case !again && n.any > 0 && f < least:
		c.fail("fence %d, want at least %d", f, least)
	case f < max(r.Floor, 1) || f >= driver.MaxFence:
		c.fail("fence %d, Floor %d", f, r.Floor)
	}
	n.live[tag] = f
	n.any = max(n.any, f)
}

func (c *comparison) release(id driver.ID) {
	wantErr := c.model.Release(c.ctx, id)
	c.errors("Release", c.store.Release(c.ctx, id), wantErr)
}

func (c *comparison) smash(key string) {
	if c.can&breaks == 0 {
		return
	}
	want, wantErr := driver.Break(c.ctx, c.model, key, 0, "compared")
	got, gotErr := driver.Break(c.ctx, c.store, key, 0, "compared")
	c.errors("Break", gotErr, wantErr)
	slices.SortFunc(want, byOwner)
	slices.SortFunc(got, byOwner)
	c.claims("Break", got, want)
}

func byOwner(a, b driver.Claim) int { return strings.Compare(a.Owner, b.Owner) }

// follow grants in the model the claims that the store granted to the head of its queue by itself:
// those of owners other than one, with fences below a bound.
func (c *comparison) follow(key, except string, below uint64) {
	if c.can&show == 0 {
		return
	}
	cs, err := driver.Show(c.ctx, c.store, key)
	if err != nil {
		c.fail("Show: %v", err)
	}
	for _, d := range cs {
		id := c.tags[d.Owner]
		entry, waits := c.stands(c.model, id)
		if d.Waiting || !waits || !entry.Waiting || id.Owner == except || d.Fence >= below {
			continue
		}
		r := c.known(c.requests[id])
		r.TTL = entry.Left // a pushed grant lives no longer than its entry
		if res, err := c.model.Acquire(c.ctx, r); err != nil || !res.Granted {
			c.fail("the store granted a claim to %s by itself, which is not first in the queue or does not fit", d.Owner)
		}
		c.fence(r, d.Fence)
	}
}

// retire records which claims have ended in the model.
func (c *comparison) retire(key string) {
	cs, err := driver.Show(c.ctx, c.model, key)
	if err != nil {
		c.fail("the model: %v", err)
	}
	n := c.keys[key]
	for tag, f := range n.live {
		if !slices.ContainsFunc(cs, func(d driver.Claim) bool { return d.Owner == tag }) {
			n.ended = max(n.ended, f)
			delete(n.live, tag)
		}
	}
}

// stands returns the claim or entry of id on a store with Show.
func (c *comparison) stands(s driver.Store, id driver.ID) (driver.Claim, bool) {
	cs, err := driver.Show(c.ctx, s, id.Key)
	if err != nil {
		c.fail("the model: %v", err)
	}
	i := slices.IndexFunc(cs, func(d driver.Claim) bool { return d.Owner == driver.Tag(id.Owner) })
	if i < 0 {
		return driver.Claim{}, false
	}
	return cs[i], true
}

// near compares a duration that the store reports with that of the model. The call of the store
// comes after that of the model, by less than a quarter of a unit: see inTime.
func (c *comparison) near(a, b time.Duration) bool { return (a - b).Abs() <= c.unit/4+c.grain }

// errors fails unless both errors are of one kind.
func (c *comparison) errors(verb string, got, want error) {
	for _, kind := range []error{driver.ErrNotHeld, driver.ErrInvalid} {
		if errors.Is(got, kind) && errors.Is(want, kind) {
			return
		}
	}
	if (got != nil) || (want != nil) {
		c.fail("%s: error %v, want %v", verb, got, want)
	}
}

func (c *comparison) equal(what string, got, want any) {
	if got != want {
		c.fail("%s: got %v, want %v", what, got, want)
	}
}

// fail ends the run with a difference, or with slow if the calls were so late that the answers need
// not agree.
func (c *comparison) fail(format string, args ...any) {
	if !c.inTime() {
		panic(slow{})
	}
	panic(failure(fmt.Sprintf(format, args...)))
}
