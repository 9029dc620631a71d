package distlock

import (
	"context"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// A request is one call for a lock: its name, mode and options, and what the queue needs of them.
type request struct {
	queue.Call
	l     *Locker
	name  string
	mode  Mode
	opt   options
	lease *Lease // memory for the lease; nil: it is in use
}

// A slab is one piece of memory for a request and for what most requests become.
type slab struct {
	request request
	lease   Lease
	queue   queue.Slab
}

// request checks the arguments of a call. Nothing was sent to the store when it fails.
func (l *Locker) request(ctx context.Context, k names.Kind, name string, mode Mode, opts []Option) (*request, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if l.store == nil {
		return nil, errNoNew
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	opt := l.defaults
	if len(opts) > 0 {
		var err error
		if opt, err = opt.with(opts, l.features); err != nil {
			return nil, err
		}
	}
	if err := l.fits(&opt, k); err != nil {
		return nil, err
	}
	s := new(slab)
	r := &s.request
	terms := opt.terms()
	r.l, r.name, r.mode, r.opt, r.lease = l, name, mode, opt, &s.lease
	r.Call = queue.Call{
		Request: driver.Request{
			ID:     driver.ID{Key: k.Key(name)},
			TTL:    terms.StoreTTL(),
			Holder: opt.holder,
			Meta:   opt.meta,
			Value:  opt.value,
		},
		Terms: terms, Wait: opt.wait, MaxAttempts: opt.maxAttempts, MinPause: opt.first, MaxPause: opt.most, Paced: opt.paced,
		MinHold: opt.minHold, Began: l.clock.Awake(), Caller: (*caller)(r), Slab: &s.queue,
	}
	if opt.observe != nil {
		r.Observed, r.Origin = true, context.WithoutCancel(ctx)
	}
	return r, nil
}

// terms returns how the keeper keeps a claim with these options.
func (o *options) terms() keeper.Terms {
	return keeper.Terms{TTL: o.ttl, Delay: o.delay, Fixed: o.fixed, MaxHold: o.maxHold}
}

// checkName returns an ErrInvalid if s is not a name. Every other string is a name on every
// store.
func checkName(s string) error {
	if why := names.Flaw(s); why != "" {
		return &ArgumentError{"name", why}
	}
	return nil
}

// acquire acquires a lease for a request: it attempts, and waits if it has to.
func (l *Locker) acquire(ctx context.Context, r *request) (*Lease, error) {
	if err := l.reenters(ctx, r); err != nil {
		return nil, err
	}
	lease, err := l.queue.Acquire(ctx, &r.Call)
	if err != nil {
		return nil, err
	}
	return r.newLease(lease), nil
}

// newLease returns the lease of r as its user sees it.
func (r *request) newLease(q *queue.Lease) *Lease {
	lease := r.lease
	r.lease = nil
	if lease == nil {
		lease = new(Lease)
	}
	lease.q, lease.r = q, r
	return lease
}

// derive returns a copy of r for another call.
func (r *request) derive() *request {
	other := *r
	other.Caller, other.Slab, other.lease = (*caller)(&other), nil, nil
	return &other
}
