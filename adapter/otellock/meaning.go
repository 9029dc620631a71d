package otellock

import (
	"context"
	"errors"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// Every attribute has a fixed set of values. The functions below choose the value for an event.

const (
	granted = iota
	busy
	timeout
	cancelled
	failed
)

var outcomes = [...]string{"granted", "busy", "timeout", "cancelled", "error"}

// outcomeOf returns the outcome of a call for a lock.
func outcomeOf(ctx context.Context, e *distlock.Event) int {
	if e.Err == nil {
		return granted
	}
	ended := ctx.Err()
	switch {
	case errors.Is(e.Err, distlock.ErrClosed):
		return cancelled
	case errors.Is(e.Err, distlock.ErrHeld) && (!e.Waited || ended == nil):
		return busy
	case errors.Is(ended, context.Canceled):
		return cancelled
	case errors.Is(e.Err, distlock.ErrHeld):
		return timeout
	case ended != nil && !ofStore(e.Err): // the time had ended before the store was called
		return timeout
	}
	return failed // also if the time ended before the store ever replied
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

// renewalOf returns the outcome of a renewal. A success that arrives after the end of trust does
// not save the lease.
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

// lossOf returns why a lease was lost, and how its hold ended. If a lease was not renewed in time
// because renewals failed, the reason is the store. Otherwise it is the program: the process was
// paused, or the lease was NoRenewal or had a MaxHold.
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

// failureOf returns the kind of an error of a store.
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
