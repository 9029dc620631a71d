package distlock

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

// A request is what one call asks for, checked and complete but for the owner.
type request struct {
	driver.Request
	store string
	name  string
	mode  Mode
	opt   options
	size  *atomic.Int64 // of a semaphore, which can be resized; nil: Limit stays
	began time.Duration // when the call was made
	room  *room         // nil: it is in use

	undone time.Duration   // until when it waits for what it undoes; 0: its ctx has not ended
	origin context.Context // of the call, without its end; nil: nobody observes
}

// A room is one piece of memory for a request, and for the line, the turn and the lease that most requests become.
type room struct {
	request request
	line    line
	turn    turn
	lease   Lease
}

// takeRoom returns memory for a turn or a lease of r.
func (r *request) takeRoom() *room {
	free := r.room
	r.room = nil
	if free == nil {
		free = new(room)
	}
	return free
}

// newLine returns a line for the key of r. Its memory is in the room, unless that was used before.
func (r *request) newLine() *line {
	if r.room == nil || r.room.line.key != "" {
		return &line{key: r.Key}
	}
	r.room.line.key = r.Key
	return &r.room.line
}

// request checks what a call was given. Nothing has been asked of the store when it fails.
func (l *Locker) request(ctx context.Context, k kind, name string, mode Mode, opts []Option) (*request, error) {
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
	space := new(room)
	r := &space.request
	*r = request{
		Request: driver.Request{
			ID:     driver.ID{Key: k.key(name)},
			TTL:    opt.terms().StoreTTL(),
			Holder: opt.holder,
			Meta:   opt.meta,
			Value:  opt.value,
		},
		store: l.features.Name, name: name, mode: mode, opt: opt, began: l.clock.Awake(), room: space,
	}
	if opt.observe != nil {
		r.origin = context.WithoutCancel(ctx)
	}
	return r, nil
}

// fits refuses options that belong to another kind. Defaults of the Locker are for those kinds that
// have a use for them, but for a weight.
func (l *Locker) fits(opt *options, k kind) error {
	switch {
	case opt.weight > 0 && k != kindSem && k != kindRate:
		return errWeight
	case opt.exact && !l.defaults.exact && k != kindRate:
		return errExact
	case opt.preferred && !l.defaults.preferred && k != kindLead:
		return errPreferred
	}
	return nil
}

// newOwner makes the secret of one turn.
func newOwner() string { return rand.Text() }

// same reports whether a claim that was granted to r would serve other as well.
func (r *request) same(other *request) bool {
	a, b := &r.Request, &other.Request
	return r == other || a.Key == b.Key && a.Weight == b.Weight && r.sameLimit(other) && a.TTL == b.TTL &&
		r.opt.ttl == other.opt.ttl && r.opt.fixed == other.opt.fixed && r.opt.atLeast == other.opt.atLeast &&
		a.Holder == b.Holder && a.Task == b.Task && maps.Equal(a.Meta, b.Meta) && bytes.Equal(a.Value, b.Value)
}

// alone reports whether r, once granted, leaves room for nobody.
func (r *request) alone() bool { return r.Weight == driver.Whole }

// limit bounds one call to the store: what comes later than the trust it brings is worthless.
func (r *request) limit() time.Duration { return min(callLimit, r.opt.ttl) }

// acquire asks the store once. It returns when the request was sent: trust counts from then on.
func (l *Locker) acquire(ctx context.Context, r *request, ask driver.Request) (res driver.Result, sent time.Duration, err error) {
	call, cancel := l.call(ctx, r.limit())
	defer cancel()
	began := l.clock.Awake()
	sent = l.clock.Now()
	res, err = l.store.Acquire(call, ask)
	r.tell(ctx, Event{Type: EventAttempted, Fence: res.Fence, Took: l.clock.Awake() - began, Behind: res.Behind, Err: err})
	return res, sent, err
}

// try asks the store for one claim with a new owner and no place in line. If the answer
// is lost it asks again, once and within the same limit: the same owner gets the same grant. When
// it returns an error nothing is left in the store, or the error is ErrUnknown.
func (l *Locker) try(ctx context.Context, r *request) (driver.ID, driver.Result, time.Duration, error) {
	ask := r.Request
	ask.Owner = newOwner()
	if err := ctx.Err(); err != nil {
		return ask.ID, driver.Result{}, 0, context.Cause(ctx)
	}
	began := l.clock.Awake()
	res, sent, err := l.acquire(ctx, r, ask)
	unknown := err != nil && newOpError("", "", err).Unknown
	if left := r.limit() - (l.clock.Awake() - began); unknown && left > 0 && ctx.Err() == nil {
		again, cancel := context.WithTimeout(ctx, left)
		res, sent, err = l.acquire(again, r, ask)
		cancel()
	}
	switch {
	case err == nil && (res.Granted || !unknown):
		return ask.ID, res, sent, nil
	case err == nil: // what refuses the second may be the first, which is under way still
		if err = l.undo(ctx, r, ask.ID); err == nil {
			return ask.ID, res, sent, nil
		}
		return ask.ID, driver.Result{}, sent, &OpError{Op: "acquire", Name: r.name, Unknown: true, Err: err}
	}
	op := newOpError("acquire", r.name, err)
	if unknown || op.Unknown { // one of the two may have taken effect
		op.Unknown = l.undo(ctx, r, ask.ID) != nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return ask.ID, res, sent, withCause(op, cause)
	}
	return ask.ID, res, sent, op
}

// withdrawLimit bounds a withdrawal: the caller wants to leave, and what it leaves behind ends by itself.
const withdrawLimit = time.Second

// withdraw gives up a place in line, and undoes what may have been granted unseen. It goes
// out although ctx is over: that is when it is needed most.
func (l *Locker) withdraw(ctx context.Context, r *request, id driver.ID) error {
	call, cancel := l.lastCall(ctx, min(withdrawLimit, r.limit()), new(limited))
	defer cancel()
	err := l.store.Release(call, id)
	if errors.Is(err, driver.ErrNotHeld) {
		err = nil // there was nothing
	}
	r.tell(ctx, Event{Type: EventWithdrawn, Err: err})
	return err
}

// undo is withdraw for a call that has to return soon after the end of ctx. What is not undone by
// then is undone behind the call, and the error says that it is not known.
func (l *Locker) undo(ctx context.Context, r *request, id driver.ID) error {
	return l.aside(ctx, l.graceOf(r), func() error { return l.withdraw(ctx, r, id) })
}

// heldError makes an error of a refusal.
func (r *request) heldError(res driver.Result) *HeldError {
	b := res.Blocker
	e := &HeldError{Name: r.name, Holder: b.Holder, Held: b.Held, Left: b.Left, Fence: b.Fence, Ahead: res.Ahead, Retry: res.Retry, heard: time.Now()}
	if b.Kept {
		e.record = &b
	}
	// A plain Redis key. A store that does not show the owners of others does not know their ends.
	e.endless = b.Owner != "" && b.Fence == 0 && b.Held == 0 && b.Left == 0 && !b.Waiting
	return e
}
