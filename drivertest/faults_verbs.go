package drivertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock/driver"
)

// A faultVerb is a call to which a breakage is applied.
type faultVerb struct {
	name  string
	needs need
	ends  bool // after it, there is no claim

	// prepare makes the claims that the call needs, without the proxy. The key of the probe is
	// unused.
	prepare func(p *probe) driver.Request

	// call makes the call. A wrong answer is an errWrong.
	call func(ctx context.Context, s driver.Store, r driver.Request) error

	// differs compares the claims on the server with the result of the call: nil or a definite
	// error. "" means that they agree.
	differs func(p *probe, r driver.Request, err error) string
}

// errWrong is an answer that is wrong whatever happened to the connection.
var errWrong = fmt.Errorf("%w, which cannot be", driver.ErrInvalid)

func faultVerbs() []faultVerb {
	held := func(p *probe) driver.Request {
		r := p.exclusive()
		r.TTL = p.long / 2
		p.grant(r)
		return r
	}
	return []faultVerb{
		{
			name:    "Acquire",
			prepare: (*probe).exclusive,
			call: func(ctx context.Context, s driver.Store, r driver.Request) error {
				res, err := s.Acquire(ctx, r)
				if err == nil && !res.Granted {
					err = fmt.Errorf("a refusal on a free key: %w", errWrong)
				}
				return err
			},
			differs: func(p *probe, r driver.Request, err error) string {
				_, there := p.stands(r)
				return p.wants(there, err == nil, err)
			},
		},
		{
			name: "Acquire behind another", needs: queue | show,
			prepare: func(p *probe) driver.Request {
				p.grant(p.exclusive())
				return queued(p.exclusive(), p.long)
			},
			call: func(ctx context.Context, s driver.Store, r driver.Request) error {
				res, err := s.Acquire(ctx, r)
				if err == nil && (res.Granted || res.Ahead != 0) {
					err = fmt.Errorf("granted %v, ahead %d behind a holder: %w", res.Granted, res.Ahead, errWrong)
				}
				return err
			},
			differs: func(p *probe, r driver.Request, err error) string {
				n := len(p.show(r.Key)) - 1
				if n > 1 {
					return fmt.Sprintf("the queue has %d entries", n)
				}
				return p.wants(n == 1, err == nil, err)
			},
		},
		{
			name: "Renew", prepare: held,
			call: func(ctx context.Context, s driver.Store, r driver.Request) error {
				_, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: 2 * r.TTL})
				return err
			},
			differs: (*probe).renewed,
		},
		{
			name: "RenewAll", prepare: held,
			call: func(ctx context.Context, s driver.Store, r driver.Request) error {
				other := driver.ID{Key: r.Key + "/other", Owner: r.Owner}
				got := driver.RenewAll(ctx, s, []driver.Renewal{{ID: other, TTL: r.TTL}, {ID: r.ID, TTL: 2 * r.TTL}})
				if got[0].Err == nil {
					return fmt.Errorf("a claim that was never granted was renewed: %w", errWrong)
				}
				return got[1].Err
			},
			differs: (*probe).renewed,
		},
		{
			name: "Release", prepare: held, ends: true,
			call: func(ctx context.Context, s driver.Store, r driver.Request) error { return s.Release(ctx, r.ID) },
			differs: func(p *probe, r driver.Request, err error) string {
				_, there := p.stands(r)
				return p.wants(there, err != nil, err)
			},
		},
		{
			name: "Break", prepare: held, needs: breaks, ends: true,
			call: func(ctx context.Context, s driver.Store, r driver.Request) error {
				_, err := driver.Break(ctx, s, r.Key, 0, reason)
				return err
			},
			differs: func(p *probe, r driver.Request, err error) string {
				_, there := p.stands(r)
				return p.wants(there, err != nil, err)
			},
		},
	}
}

// wants returns a mistake if a claim or queue entry exists and should not, or the other way round.
func (p *probe) wants(there, want bool, err error) string {
	switch {
	case errors.Is(err, errWrong):
		return "no other owner uses the key"
	case errors.Is(err, driver.ErrNotHeld):
		return "the claim was live"
	case there && !want:
		return "it is there"
	case want && !there:
		return "it is not there"
	}
	return ""
}

// renewed returns a mistake in the life of a claim that was renewed for twice its TTL.
func (p *probe) renewed(r driver.Request, err error) string {
	c, there := p.stands(r)
	if wrong := p.wants(there, true, err); wrong != "" || !p.has(expiry|show) {
		return wrong
	}
	if longer := c.Left > 3*r.TTL/2; longer != (err == nil) {
		return fmt.Sprintf("the claim ends in %v", c.Left)
	}
	return ""
}
