package distlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// The errors to distinguish with [errors.Is]. If a store cannot do what a kind of lock needs, the
// error is [errors.ErrUnsupported].
var (
	// ErrNotAcquired says that the lock was not acquired, whatever the reason: it was held, the
	// store failed, the wait ended, an argument was wrong, the Locker was closed, it would have
	// been a deadlock. The error of the reason comes with it.
	//
	// It answers whether a function ran. If [Locker.Do], [Locker.TryDo], [DoValue], [Semaphore.Do],
	// [Once.Do], [Cron.Run] or [Election.Run] returns an error, it is ErrNotAcquired if and only if
	// the call did not run its function. If the function itself returns such an error, of a lock
	// within it, the call returns that error without the match. Test ErrNotAcquired before the
	// reason, such as [ErrHeld]: that may come from a lock within the function. Without an error,
	// TryDo and Cron.Run may have skipped the function, as their first result says, and Once.Do may
	// have returned a result that it remembered.
	//
	// It is no reason to try again: [ErrInvalid], [ErrClosed], [ErrDeadlock] and a [*PastError]
	// come with it too, and are final.
	ErrNotAcquired = errors.New("distlock: not acquired")

	// ErrHeld says that another holds the lock. It is definite: the caller holds nothing. If a wait
	// ended, the error has the cause of its context too. The error is a [*HeldError].
	ErrHeld = errors.New("distlock: held")

	// ErrLost says that the lease ended without Unlock: its work must stop. It is the cause of the
	// contexts of the lease. The error is a [*LostError].
	ErrLost = errors.New("distlock: lease lost")

	// ErrMaxHold is the [ErrLost] of a lease that reached its [MaxHold].
	ErrMaxHold error = &kindOf{"distlock: longest hold reached", ErrLost}

	// ErrReleased says that the lease was released by [Lease.Unlock] or [Locker.ReleaseAll], or
	// given away by [Lease.Detach].
	ErrReleased = queue.ErrReleased

	// ErrClosed says that the Locker was closed.
	ErrClosed = queue.ErrClosed

	// ErrUnavailable says that the store could not be used for now. It is definite: nothing was
	// changed, so a call for a lock holds nothing. The error is an [*OpError].
	ErrUnavailable = errors.New("distlock: store unavailable")

	// ErrUnknown says that a call may or may not have taken effect: the store may keep a claim of
	// the caller until its TTL has passed. The error is an [*OpError].
	ErrUnknown = errors.New("distlock: outcome unknown")

	// ErrInvalid says that an argument is wrong, and nothing was changed. The error is an
	// [*ArgumentError], or an [*OpError] if the store refused the argument.
	ErrInvalid = errors.New("distlock: invalid argument")
)

// kindOf is an error that is also another one.
type kindOf struct {
	text string
	of   error
}

func (k *kindOf) Error() string { return k.text }
func (k *kindOf) Unwrap() error { return k.of }

// outcome returns err with the answer whether the function of a call ran: the error is
// ErrNotAcquired if and only if the function did not run.
func outcome(ran bool, err error) error {
	switch {
	case err == nil || errors.Is(err, ErrNotAcquired) == !ran:
		return err
	case ran:
		return &ranError{err}
	default:
		return &notAcquiredError{err}
	}
}

// A notAcquiredError has the reason why a lock was not acquired. It is ErrNotAcquired.
type notAcquiredError struct{ err error }

func (e *notAcquiredError) Error() string        { return e.err.Error() }
func (e *notAcquiredError) Is(target error) bool { return target == ErrNotAcquired }
func (e *notAcquiredError) Unwrap() error        { return e.err }

// A ranError is the error of a function that ran. It matches everything that the error matches but
// ErrNotAcquired, which belongs to a lock within the function. It has no Unwrap: errors.Is would
// find the match.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }

func (e *ranError) Is(target error) bool {
	return target != ErrNotAcquired && errors.Is(e.err, target)
}

func (e *ranError) As(target any) bool { return errors.As(e.err, target) }

// An ArgumentError says which argument of a call is wrong, and why. It is [ErrInvalid].
type ArgumentError struct {
	// What is the argument: "name", "names", "TTL", "weight", "holder", "value", "metadata",
	// "wait", "attempts", "backoff", "longest hold", "shortest hold", "lock delay", "size",
	// "limit", "window", "keep", "duration", "option", "kind", "handle", "proof", "fence",
	// "lease", "context", "function", "store" or "locker".
	What string
	Why  string // for people
}

func (e *ArgumentError) Error() string { return "distlock: invalid " + e.What + ": " + e.Why }

// Is makes an ArgumentError an [ErrInvalid].
func (e *ArgumentError) Is(target error) bool { return target == ErrInvalid }

func invalid(what, format string, args ...any) error {
	return &ArgumentError{What: what, Why: fmt.Sprintf(format, args...)}
}

// A HeldError says who holds the lock. It is [ErrHeld].
type HeldError struct {
	Kind   Kind
	Name   string        // of the lock
	Holder string        // who holds it
	Held   time.Duration // for how long
	Left   time.Duration // until it expires unless renewed; 0: not known
	Fence  uint64        // the holder's fence; 0: none
	Ahead  int           // how many wait before the caller; above 16, at least so many
	Retry  time.Duration // until the first of the claims in the way expires; 0: not known

	record  *driver.Claim // the claim is a record, which nobody releases; nil: it is not
	endless bool          // another program holds it, without an expiry
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "distlock: %s is held", e.Kind.title(e.Name))
	if e.Holder != "" {
		fmt.Fprintf(&b, " by %s", label(e.Holder))
	}
	if e.Held > 0 {
		fmt.Fprintf(&b, " for %v", round(e.Held))
	}
	switch {
	case e.Left > 0:
		fmt.Fprintf(&b, ", %v left", round(e.Left))
	case e.endless:
		b.WriteString(", no expiry")
	}
	switch {
	case e.Ahead > 16: // the store may have stopped counting
		fmt.Fprintf(&b, ", at least %d ahead", e.Ahead)
	case e.Ahead > 0:
		fmt.Fprintf(&b, ", %d ahead", e.Ahead)
	}
	return b.String()
}

// Is makes a HeldError an [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A LostError says why a lease was lost. It is [ErrLost], and [ErrMaxHold] if that was the reason.
type LostError struct {
	Kind   Kind
	Name   string
	Fence  uint64
	Reason Loss
	Err    error // of the store, or nil
}

// Loss is the reason for a loss. More may be added.
type Loss string

// The reasons for a loss.
const (
	LossExpired Loss = "expired"  // it could not be renewed in time
	LossTaken   Loss = "taken"    // the store no longer has the claim
	LossBroken  Loss = "broken"   // somebody broke the claim on purpose
	LossMaxHold Loss = "max_hold" // its MaxHold was reached
)

func (e *LostError) Error() string {
	s := fmt.Sprintf("distlock: lease of %s lost: ", e.Kind.title(e.Name))
	var broken *driver.BrokenError
	switch {
	case e.Reason == LossExpired:
		return s + "not renewed in time"
	case e.Reason == LossMaxHold:
		return s + "longest hold reached"
	case errors.As(e.Err, &broken):
		return s + "broken: " + names.Quote(broken.Reason)
	default:
		return s + "the store no longer holds it"
	}
}

// Is makes a LostError an [ErrLost], and an [ErrMaxHold] if that was the reason. Two errors of the
// same loss are equal.
func (e *LostError) Is(target error) bool {
	if o, ok := target.(*LostError); ok {
		return o != nil && o.Kind == e.Kind && o.Name == e.Name && o.Fence == e.Fence && o.Reason == e.Reason
	}
	return target == ErrLost || target == ErrMaxHold && e.Reason == LossMaxHold
}

// Unwrap returns the error of the store.
func (e *LostError) Unwrap() error { return e.Err }

// An OpError says that a call of the store failed. It is [ErrUnknown] if the call may have taken
// effect, and [ErrUnavailable] if it did not or was undone.
type OpError struct {
	Op      string // "acquire", "renew", "extend", "release", "withdraw", "detach", "attach", "downgrade", "show", "list", "ping", "break", "record", "publish"
	Kind    Kind   // KindAny if the call is for none
	Name    string
	Unknown bool // whether the call may have taken effect
	Err     error
}

func (e *OpError) Error() string {
	s := "distlock: " + e.Op
	if e.Name != "" {
		s += " " + e.Kind.title(e.Name)
	}
	if e.Unknown {
		s += ": outcome unknown"
	}
	return s + ": " + e.Err.Error()
}

// Is makes an OpError an [ErrUnknown], [ErrUnavailable] or [ErrInvalid].
func (e *OpError) Is(target error) bool {
	switch target {
	case ErrUnknown:
		return e.Unknown
	case ErrInvalid:
		return errors.Is(e.Err, driver.ErrInvalid)
	case ErrUnavailable:
		return !e.Unknown && !errors.Is(e.Err, driver.ErrInvalid) && !errors.Is(e.Err, errors.ErrUnsupported)
	}
	return false
}

// Unwrap returns the error of the store.
func (e *OpError) Unwrap() error { return e.Err }

// label returns a holder for people: as it is, unless the option [Holder] would refuse it. Other
// programs may write to the store too.
func label(s string) string {
	if names.TextFlaw(s, maxHolder) != "" {
		return names.Quote(s)
	}
	return s
}

// round rounds a duration for people.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}
