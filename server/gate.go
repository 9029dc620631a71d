package server

import (
	"context"
	"errors"
	"iter"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

// A gate is the store behind the limits of a server. It measures each call. Renew and Release pass
// at once: a lease must not be lost because of other calls.
type gate struct {
	driver.Forward
	quota        *quota
	calls, lists *slots
	metrics      *metrics
}

func newGate(s driver.Store, q *quota, m *metrics) *gate {
	return &gate{driver.Forward{Store: s}, q, newSlots(q.InFlight), newSlots(q.Lists), m}
}

// enter waits for a slot. The returned function ends the call.
func (g *gate) enter(ctx context.Context, l *slots) (leave func(), err error) {
	identity := access.FromContext(ctx).Name
	if err := l.enter(ctx, identity); err != nil {
		g.quota.limited(ctx, limitBusy)
		return nil, message.Error(&api.Reason{
			Kind: api.Reason_KIND_LIMITED, Text: "the lock server is busy: the call waited for others, and the store was not called",
		})
	}
	return func() { l.leave(identity) }, nil
}

// classOf returns the class of the claims on a key.
func classOf(key string) class {
	if kind, _, ok := names.Split(key); ok && kind == names.RateLimit {
		return pass
	}
	return held
}

// Acquire grants or refuses a claim.
func (g *gate) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	leave, err := g.enter(ctx, g.calls)
	if err != nil {
		return driver.Result{}, err
	}
	defer leave()
	c := classOf(r.Key)
	fresh, err := g.quota.reserve(ctx, r.ID, c, r.TTL)
	if err != nil {
		return driver.Result{}, err
	}
	began := time.Now()
	res, err := g.Store.Acquire(ctx, r)
	outcome := outcomeOf(err)
	switch {
	case err == nil && res.Granted:
		g.quota.holds(ctx, r.ID, c, r.TTL)
		outcome = "granted"
	case err == nil:
		g.quota.ends(ctx, r.ID)
		outcome = "busy"
	case outcome != "unknown" && fresh: // nothing has changed
		g.quota.ends(ctx, r.ID)
	}
	g.metrics.stored(ctx, "acquire", outcome, began)
	return res, err
}

// Renew renews a claim.
func (g *gate) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	out := g.RenewAll(ctx, []driver.Renewal{r})
	return out[0].Behind, out[0].Err
}

// RenewAll renews claims.
func (g *gate) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	began := time.Now()
	out := driver.RenewAll(ctx, g.Store, rs)
	for i, r := range rs {
		switch outcome := outcomeOf(out[i].Err); {
		case outcome == "not_held" || outcome == "broken":
			g.quota.ends(ctx, r.ID)
		case outcome == "ok" && r.Keep:
			g.quota.ends(ctx, r.ID)
			g.quota.holds(ctx, r.ID, record, r.TTL)
		case outcome == "ok":
			g.quota.holds(ctx, r.ID, classOf(r.Key), r.TTL)
		}
		g.metrics.renewed(ctx, outcomeOf(out[i].Err))
	}
	g.metrics.stored(ctx, "renew", "", began)
	return out
}

// Release ends a claim.
func (g *gate) Release(ctx context.Context, id driver.ID) error {
	began := time.Now()
	err := g.Store.Release(ctx, id)
	outcome := outcomeOf(err)
	if outcome == "ok" || outcome == "not_held" || outcome == "broken" {
		g.quota.ends(ctx, id)
	}
	g.metrics.stored(ctx, "release", outcome, began)
	return err
}

// Show returns the claims on a key.
func (g *gate) Show(ctx context.Context, key string) (claims []driver.Claim, err error) {
	err = g.do(ctx, "show", func() (err error) { claims, err = driver.Show(ctx, g.Store, key); return err })
	return claims, err
}

// Break ends claims of others.
func (g *gate) Break(ctx context.Context, key string, upTo uint64, reason string) (claims []driver.Claim, err error) {
	err = g.do(ctx, "break", func() (err error) { claims, err = driver.Break(ctx, g.Store, key, upTo, reason); return err })
	return claims, err
}

// Inspect describes the store.
func (g *gate) Inspect(ctx context.Context) (info driver.Info, err error) {
	err = g.do(ctx, "inspect", func() (err error) { info, err = driver.Inspect(ctx, g.Store); return err })
	return info, err
}

// do makes a call of the store in a slot of calls.
func (g *gate) do(ctx context.Context, op string, call func() error) error {
	leave, err := g.enter(ctx, g.calls)
	if err != nil {
		return err
	}
	defer leave()
	began := time.Now()
	err = call()
	g.metrics.stored(ctx, op, outcomeOf(err), began)
	return err
}

// List yields the claims of all keys with a prefix. It has slots of its own, because it takes as
// long as its caller.
func (g *gate) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		leave, err := g.enter(ctx, g.lists)
		if err != nil {
			yield(driver.Claim{}, err)
			return
		}
		defer leave()
		began, outcome := time.Now(), "ok"
		for c, err := range driver.List(ctx, g.Store, prefix) {
			if err != nil {
				outcome = outcomeOf(err)
			}
			if !yield(c, err) {
				break
			}
		}
		g.metrics.stored(ctx, "list", outcome, began)
	}
}

// Watch counts a watch until its ctx ends. Over the limit there is none, and the caller polls.
func (g *gate) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if g.quota.call(ctx, false) != nil {
		return nil
	}
	done, err := g.quota.watch(ctx)
	if err != nil {
		return nil
	}
	wakes := driver.Watch(ctx, g.Store, id)
	if wakes == nil {
		done()
		return nil
	}
	context.AfterFunc(ctx, done)
	return wakes
}

// outcomeOf returns an error of a store as a word of a closed set, for metrics.
func outcomeOf(err error) string {
	if err == nil {
		return "ok"
	}
	var broken *driver.BrokenError
	switch {
	case errors.As(err, &broken):
		return "broken"
	case errors.Is(err, driver.ErrNotHeld):
		return "not_held"
	case errors.Is(err, driver.ErrInvalid):
		return "invalid"
	case errors.Is(err, driver.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, errors.ErrUnsupported):
		return "unsupported"
	}
	return "unknown"
}
