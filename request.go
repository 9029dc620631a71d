package distlock

import (
	"context"
	"errors"
	"math/bits"
	"slices"

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

// refuse returns an ErrInvalid if one of the options was given.
func (s optionSet) refuse(wrong optionSet, by string) error {
	if s &= wrong; s != 0 {
		return invalid("option", "%s has no effect on %s", optionNames[bits.TrailingZeros16(uint16(s))], by)
	}
	return nil
}

// noWait is the last option of a call that does not wait.
func noWait(o *options) error {
	o.wait = 0
	return o.given.refuse(givenWaiting, "a call that does not wait")
}

// inherited makes the options before it defaults.
func inherited(o *options) error {
	o.given = 0
	return nil
}

// kindOptions checks the options of a constructor. It returns them as the defaults of its calls.
func (l *Locker) kindOptions(k names.Kind, opts []Option) ([]Option, error) {
	if l == nil || l.store == nil {
		return nil, errNoNew
	}
	opt, err := l.defaults.with(opts, l.features)
	if err == nil {
		err = l.fits(&opt, k)
	}
	return slices.Concat(opts, []Option{inherited})[: len(opts)+1 : len(opts)+1], err
}

// fits refuses options that have no effect on the calls of a kind.
func (l *Locker) fits(opt *options, k names.Kind) error {
	if opt.preferred && k == names.Election && !l.features.Queue {
		return unsupported(l.features, "has no queue, as Preferred needs")
	}
	if opt.given&without[k] == 0 {
		return nil
	}
	return opt.given.refuse(without[k], "a call of kind "+k.Word())
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

// A caller is a request as the queue sees it: it turns events and errors of the queue into those of
// this package.
type caller request

// Event calls the observer of the request.
func (c *caller) Event(ctx context.Context, e queue.Event) {
	(*request)(c).emit(ctx, Event{
		Type: EventType(e.Type), Fence: e.Fence, Took: e.Took, Wait: e.Wait, Left: e.Left, Margin: e.Margin, Behind: e.Behind,
		Handed: e.Handed, Waited: e.Waited, Thin: e.Thin, Risk: e.Risk, Err: e.Err,
	})
}

// emit calls the observer of the request, if it has one.
func (r *request) emit(ctx context.Context, e Event) {
	if r.opt.observe == nil {
		return
	}
	e.Store, e.Kind, e.Name, e.Mode, e.Holder, e.Origin = r.l.features.Name, keyKind(r.Key), r.name, r.mode, r.opt.holder, r.Origin
	r.opt.observe(ctx, e)
}

// Held returns a *HeldError.
func (c *caller) Held(h queue.Held) error {
	b := h.Blocker
	e := &HeldError{Kind: keyKind(c.Key), Name: c.name, Holder: b.Holder, Held: b.Held, Left: b.Left, Fence: b.Fence, Ahead: h.Ahead, Retry: h.Retry}
	if b.Kept {
		e.record = &b
	}
	// A plain Redis key. A store that does not show the owners of others does not know their ends.
	e.endless = b.Owner != "" && b.Fence == 0 && b.Held == 0 && b.Left == 0 && !b.Waiting
	return e
}

// Failed returns an *OpError.
func (c *caller) Failed(op string, unknown bool, err error) error {
	return &OpError{Op: op, Kind: keyKind(c.Key), Name: c.name, Unknown: unknown, Err: err}
}

// failed returns the error of a call of the store that failed.
func (r *request) failed(op string, err error) *OpError {
	return &OpError{Op: op, Kind: keyKind(r.Key), Name: r.name, Unknown: queue.Unknown(err), Err: err}
}

// Lost returns a *LostError.
func (c *caller) Lost(fence uint64, cause error) error {
	e := &LostError{Kind: keyKind(c.Key), Name: c.name, Fence: fence, Reason: LossTaken, Err: cause}
	var broken *driver.BrokenError
	switch {
	case errors.Is(cause, keeper.ErrMaxHold):
		e.Reason, e.Err = LossMaxHold, nil
	case errors.Is(cause, keeper.ErrExpired):
		e.Reason, e.Err = LossExpired, nil
	case errors.As(cause, &broken):
		e.Reason = LossBroken
	}
	return e
}

// TooHeavy returns an ErrInvalid.
func (c *caller) TooHeavy(weight, limit int64) error {
	return invalid("weight", "%d of %s is over the limit of %d", weight, names.Quote(c.name), limit)
}
