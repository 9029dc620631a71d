package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// A probe makes calls on one store for one rule. Its methods fail the rule if the answer is not the
// one that their name says.
type probe struct {
	t     testing.TB
	env   Env
	store driver.Store
	can   need

	key      string        // a key that no other rule uses
	ttl      time.Duration // the unit of time
	long     time.Duration // longer than any rule takes
	patience time.Duration // the longest time that a claim may outlive its TTL
	grain    time.Duration // the largest error of a duration that the store reports

	last  span      // the last call
	until time.Time // the claims that the rule relies on certainly live until then
}

func newProbe(t testing.TB, env Env, s driver.Store) *probe {
	f := s.Features()
	p := &probe{t: t, env: env, store: s, key: "key-" + rand.Text(), ttl: env.unit(f)}
	p.can = abilities(t.Context(), env, s, p.key)
	p.long = 100 * p.ttl
	if f.MaxTTL > 0 {
		p.long = min(p.long, f.MaxTTL)
	}
	// A virtual store is exact except for the resolution of its clock. A real one also needs time
	// to notice the end of a claim, and cleans up in rounds.
	p.patience, p.grain = p.ttl/10, p.ttl/100
	if !env.Virtual {
		p.patience, p.grain = max(p.ttl, 2*time.Second), max(p.ttl/4, env.Grain)
	}
	p.until = time.Now().Add(p.long)
	return p
}

// exclusive, shared and slot return a request of a new owner. The claim lives longer than the rule
// runs.

func (p *probe) exclusive() driver.Request { return p.request(driver.Whole, driver.Whole) }

func (p *probe) shared() driver.Request { return p.request(1, driver.Whole) }

func (p *probe) slot(n int64) driver.Request { return p.request(1, n) }

func (p *probe) request(weight, limit int64) driver.Request {
	id := driver.ID{Key: p.key, Owner: rand.Text()}
	return driver.Request{ID: id, Weight: weight, Limit: limit, TTL: p.long}
}

// short returns r with a TTL that ends while the rule runs.
func (p *probe) short(r driver.Request) driver.Request {
	r.TTL = p.ttl
	return r
}

// queued returns r with a QueueTTL.
func queued(r driver.Request, d time.Duration) driver.Request {
	r.QueueTTL = d
	return r
}

// on returns r on another key.
func on(r driver.Request, key string) driver.Request {
	r.Key = key
	return r
}

// has reports whether the store has all of n.
func (p *probe) has(n need) bool { return p.can&n == n }

// attempt makes a request, which must be granted or refused.
func (p *probe) attempt(r driver.Request) driver.Result {
	began := time.Now()
	res, err := p.store.Acquire(p.t.Context(), r)
	p.last = span{began, time.Now()}
	if err != nil {
		p.wrong("Acquire(%s): error %q, want granted or refused", describe(r), err)
	}
	switch {
	case !res.Granted && res.Fence != 0:
		p.wrong("Acquire(%s): refused with the fence %d, want 0", describe(r), res.Fence)
	case res.Granted && !p.has(fence) && res.Fence != 0:
		p.wrong("Acquire(%s): fence %d from a store that declares none", describe(r), res.Fence)
	case res.Granted && p.has(fence) && (res.Fence == 0 || res.Fence >= driver.MaxFence):
		p.wrong("Acquire(%s): fence %d, want above 0 and below MaxFence", describe(r), res.Fence)
	case res.Granted && (res.Ahead != 0 || res.Retry != 0 || res.Blocker.Key != ""):
		p.wrong("Acquire(%s): granted with ahead %d, retry %v, blocker %+v, want none of these",
			describe(r), res.Ahead, res.Retry, res.Blocker)
	}
	return res
}

func (p *probe) grant(r driver.Request) driver.Result {
	res := p.attempt(r)
	if !res.Granted {
		p.fail("Acquire(%s): refused, used %d, ahead %d; want granted", describe(r), res.Used, res.Ahead)
	}
	return res
}

func (p *probe) refuse(r driver.Request) driver.Result {
	res := p.attempt(r)
	if res.Granted {
		p.fail("Acquire(%s): granted, used %d; want refused", describe(r), res.Used)
	}
	return res
}

// invalid makes a request with a mistake, which must be ErrInvalid.
func (p *probe) invalid(r driver.Request, mistake string) {
	if res, err := p.store.Acquire(p.t.Context(), r); !errors.Is(err, driver.ErrInvalid) {
		p.wrong("Acquire with %s: granted %v, error %v; want ErrInvalid", mistake, res.Granted, err)
	}
}

// renew renews a claim, with the error want, and returns the length of the queue.
func (p *probe) renew(id driver.ID, ttl time.Duration, value []byte, want error) int {
	return p.renewal(driver.Renewal{ID: id, TTL: ttl, Value: value}, want)
}

func (p *probe) renewal(r driver.Renewal, want error) int {
	began := time.Now()
	behind, err := p.store.Renew(p.t.Context(), r)
	p.last = span{began, time.Now()}
	if !errors.Is(err, want) {
		p.fail("Renew(%s for %v): error %v, want %v", driver.Tag(r.Owner), r.TTL, err, want)
	}
	return behind
}

// release releases a claim or an entry, with the error want.
func (p *probe) release(id driver.ID, want error) {
	began := time.Now()
	err := p.store.Release(p.t.Context(), id)
	p.last = span{began, time.Now()}
	if !errors.Is(err, want) {
		p.fail("Release(%s): error %v, want %v", driver.Tag(id.Owner), err, want)
	}
}

// show returns the claims and entries on a key.
func (p *probe) show(key string) []driver.Claim {
	began := time.Now()
	cs, err := driver.Show(p.t.Context(), p.store, key)
	p.last = span{began, time.Now()}
	if err != nil {
		p.wrong("Show(%q): %v", key, err)
	}
	return cs
}

// shows fails unless Show returns these owners on the probe's key, in this order.
func (p *probe) shows(rs ...driver.Request) []driver.Claim {
	cs := p.show(p.key)
	var got, want []string
	for _, c := range cs {
		got = append(got, c.Owner)
	}
	for _, r := range rs {
		want = append(want, driver.Tag(r.Owner))
	}
	p.equal("the owners shown", strings.Join(got, " "), strings.Join(want, " "))
	return cs
}

// equal fails unless got is want.
func (p *probe) equal(what string, got, want any) {
	if got != want {
		p.fail("%s: got %v, want %v", what, got, want)
	}
}

// atLeast fails if got is below least.
func (p *probe) atLeast(what string, got, least uint64) {
	if got < least {
		p.wrong("%s: got %d, want at least %d", what, got, least)
	}
}

// describe returns a request in a few words.
func describe(r driver.Request) string {
	s := fmt.Sprintf("%s: weight %d of %d for %v", driver.Tag(r.Owner), r.Weight, r.Limit, r.TTL)
	if r.QueueTTL > 0 {
		s += fmt.Sprintf(", in the queue for %v", r.QueueTTL)
	}
	return s
}

// endedCtx returns a ctx that has ended.
func (p *probe) endedCtx() context.Context {
	ctx, cancel := context.WithCancel(p.t.Context())
	cancel()
	return ctx
}
