package queue

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// A Call is one call for a claim: checked, and complete but for the owner. It is used once.
type Call struct {
	driver.Request
	Terms       keeper.Terms  // how the claim is kept
	Wait        time.Duration // how long the call waits; 0: not at all; < 0: until its ctx ends
	MaxAttempts int           // 0: any number
	MinPause    time.Duration // between attempts
	MaxPause    time.Duration
	MinHold     time.Duration // the shortest hold
	Size        *atomic.Int64 // the limit, where it can change; nil: Limit stays
	Began       time.Duration // when the call was made, on the Manager's clock

	Caller   Caller
	Origin   context.Context // of events that the lease has by itself
	Slab     *Slab           // memory; nil: it is in use
	Paced    bool            // attempts keep MinPause and MaxPause also where the store notifies
	Observed bool            // Caller.Event has to be called

	seq  uint64        // the order of arrival
	late time.Duration // until when the call waits for what it undoes; 0: its ctx has not ended
}

// A Caller is the side of a call that users see: it makes the errors and reports the events. Its
// methods are called without a lock held, but for those that make errors. Event and Waits may
// panic: then the panic continues in the call, and the call leaves nothing behind.
type Caller interface {
	// Event reports that something happened to the call or to its lease.
	Event(ctx context.Context, e Event)

	// Waits is called when the call begins to wait. It may return a function to call when the wait
	// has ended; what that returns is awaited for a moment.
	Waits(ctx context.Context, w *Waiter) (ended func() (removed <-chan struct{}))

	Held(h Held) error                               // another holds the key
	Failed(op string, unknown bool, err error) error // a call of the store failed
	Lost(fence uint64, cause error) error            // the lease was lost
	TooHeavy(weight, limit int64) error              // the claim can never be granted
}

// A Slab is one piece of memory for what most calls become.
type Slab struct {
	key    key
	tenure tenure
	lease  Lease
}

// slab returns memory for a tenure or a lease of c.
func (c *Call) slab() *Slab {
	s := c.Slab
	if s == nil { // it is not written: another goroutine may copy the call
		return new(Slab)
	}
	c.Slab = nil
	return s
}

// newKey returns the key of c. Its memory is in the slab, unless that was used before.
func (c *Call) newKey() *key {
	if c.Slab == nil || c.Slab.key.name != "" {
		return &key{name: c.Key}
	}
	c.Slab.key.name = c.Key
	return &c.Slab.key
}

// same reports whether a claim that was granted to c would do for other as well.
func (c *Call) same(other *Call) bool {
	a, b := &c.Request, &other.Request
	return c == other || a.Key == b.Key && a.Weight == b.Weight && c.sameLimit(other) && a.TTL == b.TTL &&
		c.Terms.TTL == other.Terms.TTL && c.Terms.Fixed == other.Terms.Fixed && c.MinHold == other.MinHold &&
		a.Holder == b.Holder && a.Task == b.Task && maps.Equal(a.Meta, b.Meta) && bytes.Equal(a.Value, b.Value)
}

// sameLimit reports whether c and other have one limit, also after it has changed.
func (c *Call) sameLimit(other *Call) bool {
	if c.Size != nil || other.Size != nil {
		return c.Size == other.Size
	}
	return c.Limit == other.Limit
}

// exclusive reports whether c, once granted, leaves no capacity to others.
func (c *Call) exclusive() bool { return c.Weight == driver.Whole }

// Bound returns the limit of the call now.
func (c *Call) Bound() int64 {
	if c.Size != nil {
		return c.Size.Load()
	}
	return c.Limit
}

// TooHeavy returns an error if c can never be granted.
func (c *Call) TooHeavy() error {
	if limit := c.Bound(); c.Weight > limit {
		return c.Caller.TooHeavy(c.Weight, limit)
	}
	return nil
}

// limit bounds one call of the store: an answer that comes after the trust it brings is worthless.
func (c *Call) limit() time.Duration { return min(CallLimit, c.Terms.TTL) }

func (c *Call) event(ctx context.Context, e Event) {
	if c.Observed {
		c.Caller.Event(ctx, e)
	}
}

// An Event is one thing that happened to a call or to its lease. Fields without a meaning for its
// type are zero.
type Event struct {
	Type   string
	Fence  uint64
	Took   time.Duration
	Wait   time.Duration
	Left   time.Duration
	Margin time.Duration
	Behind int
	Handed bool
	Waited bool
	Thin   bool
	Risk   bool
	Err    error
}

// The types of events, as users see them.
const (
	Attempted = "attempted"
	Waiting   = "waiting"
	Granted   = "granted"
	Refused   = "refused"
	Renewed   = "renewed"
	AtRisk    = "at_risk"
	Recovered = "recovered"
	WasLost   = "lost"
	Released  = "released"
	HandedOff = "handed_off"
	Detached  = "detached"
	Withdrawn = "withdrawn"
)

var (
	// ErrClosed says that the Manager was closed.
	ErrClosed = errors.New("distlock: locker closed")

	// ErrReleased says that a lease was released, or given away.
	ErrReleased = errors.New("distlock: lease released")

	// ErrNoAnswer says that the store did not answer in time.
	ErrNoAnswer = errors.New("the store did not answer in time")

	// ErrTooLate says that the answer of the store came after the trust that it brought.
	ErrTooLate = errors.New("the store's answer came too late to be trusted")
)

// Held is the claim in the way of a call, as the store or this process knows it.
type Held struct {
	Blocker driver.Claim
	Ahead   int
	Retry   time.Duration

	heard time.Time // when the store said so
}

func newHeld(res driver.Result) *Held {
	return &Held{Blocker: res.Blocker, Ahead: res.Ahead, Retry: res.Retry, heard: time.Now()}
}

// now returns h as it is now, if the holder has not renewed its claim since.
func (h *Held) now() Held {
	is, passed := *h, time.Since(h.heard)
	b := &is.Blocker
	if b.Fence > 0 || b.Held > 0 { // else the age is not known
		b.Held += passed
	}
	// Zero would say that the end is not known, or that there is none.
	b.Left = min(b.Left, max(b.Left-passed, time.Millisecond))
	is.Retry = min(h.Retry, max(h.Retry-passed, time.Millisecond))
	return is
}

// A failure is a call of the store that failed.
type failure struct {
	op      string
	unknown bool // the call may have taken effect
	err     error
}

func newFailure(op string, err error) *failure { return &failure{op, Unknown(err), err} }

// Unknown reports whether a call of the store that failed with err may have taken effect.
func Unknown(err error) bool {
	return !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, errors.ErrUnsupported)
}

// error returns f as the caller sees it.
func (f *failure) error(c *Call) error { return c.Caller.Failed(f.op, f.unknown, f.err) }

// failed returns the error of a call of the store.
func (c *Call) failed(op string, err error) error { return newFailure(op, err).error(c) }

// unknown returns the error of a call that may have taken effect.
func (c *Call) unknown(op string, err error) error { return c.Caller.Failed(op, true, err) }
