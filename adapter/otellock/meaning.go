package otellock

import (
	"context"
	"errors"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// The values of attributes are closed sets. What follows finds the one that an event means.

const (
	granted = iota
	busy
	timeout
	cancelled
	failed
)

var outcomes = [...]string{"granted", "busy", "timeout", "cancelled", "error"}

// outcomeOf tells how a call for a lock ended.
func outcomeOf(ctx context.Context, e *distlock.Event) int {
	if e.Err == nil {
		return granted
	}
	over := ctx.Err()
	switch {
	case errors.Is(e.Err, distlock.ErrClosed):
		return cancelled
	case errors.Is(e.Err, distlock.ErrHeld) && (!e.Waited || over == nil):
		return busy
	case errors.Is(over, context.Canceled):
		return cancelled
	case errors.Is(e.Err, distlock.ErrHeld):
		return timeout
	case over != nil && !ofStore(e.Err): // it was late before the store was asked
		return timeout
	}
	return failed // also if time ran out before the store ever answered
}

// ofStore reports whether a call to the store failed.
func ofStore(err error) bool {
	var op *distlock.OpError
	return errors.As(err, &op)
}

const (
	renewOK = iota
	renewLost
	renewError
)

var renewOutcomes = [...]string{"ok", "lost", "error"}

// renewalOf tells how a renewal ended. A good answer that came when trust was over does not save the lease.
func renewalOf(e *distlock.Event) int {
	switch {
	case errors.Is(e.Err, driver.ErrNotHeld), e.Err == nil && e.Left <= 0:
		return renewLost
	case e.Err != nil:
		return renewError
	}
	return renewOK
}

const (
	endReleased = iota
	endLost
	endExpired
	endBroken
)

var ends = [...]string{"released", "lost", "expired", "broken"}

const (
	lostExpired = iota
	lostTaken
	lostBroken
	lostStore
)

var reasons = [...]string{"expired", "taken", "broken", "store"}

// lossOf tells why a lease was lost, and how its hold ended by that. A lease that was not renewed in time because renewals failed is the
// store's; the others are those of the program: it was paused, or the lease was Fixed or had a MaxHold.
func lossOf(e *distlock.Event) (reason, end int) {
	var lost *distlock.LostError
	if !errors.As(e.Err, &lost) {
		return lostTaken, endLost
	}
	switch {
	case lost.Reason == distlock.LossExpired && e.Risk:
		return lostStore, endExpired
	case lost.Reason == distlock.LossExpired, lost.Reason == distlock.LossMaxHold:
		return lostExpired, endExpired
	case lost.Reason == distlock.LossBroken:
		return lostBroken, endBroken
	}
	return lostTaken, endLost
}

const (
	opAcquire = iota
	opRenew
	opRelease
	opWithdraw
)

var ops = [...]string{"acquire", "renew", "release", "withdraw"}

const (
	failUnavailable = iota
	failTimeout
	failUnknown
	failInvalid
)

var failures = [...]string{"unavailable", "timeout", "unknown", "invalid"}

// failureOf tells what an error of a store means.
func failureOf(err error) int {
	switch {
	case errors.Is(err, driver.ErrUnavailable):
		return failUnavailable
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
		return failInvalid
	case errors.Is(err, context.DeadlineExceeded):
		return failTimeout
	}
	return failUnknown
}

var modes = [...]string{string(distlock.ModeExclusive), string(distlock.ModeShared), string(distlock.ModeCounted)}

func modeOf(m distlock.Mode) int {
	switch m {
	case distlock.ModeExclusive:
		return 0
	case distlock.ModeShared:
		return 1
	}
	return 2
}
