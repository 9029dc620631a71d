package distlock

import (
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

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
