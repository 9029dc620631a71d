package queue

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/keeper"
)

// endLimit is how long a call that wants to end a lease waits for another that does so: as long as
// a release can take. A recording may take as long as the lease can be trusted.
const endLimit = CallLimit + withdrawLimit

// End releases the lease. It returns nil if the lease was held until now, and the Caller's Lost if
// it was not. Any other error says that the store did not answer: the lease has ended, its claim
// may stay until its TTL has passed, and End may be called again.
func (l *Lease) End(ctx context.Context) error {
	if mine, answer := l.beginEnd(true, endLimit); !mine {
		return answer
	}
	return l.endTenure(ctx)
}

// Discard is End for a lease that its caller never got: no work was done under it, so that it need
// not be held for its shortest time.
func (l *Lease) Discard(ctx context.Context) error {
	mine, answer := l.beginEnd(true, endLimit)
	if !mine {
		return answer
	}
	l.unused = true
	return l.endTenure(ctx)
}

// Abandon ends the lease without a call of the store, as if a release had not been answered.
func (l *Lease) Abandon(ctx context.Context) error {
	if mine, answer := l.beginEnd(true, 0); !mine {
		return answer
	}
	l.stop(ctx)
	err := l.Unanswered()
	l.finishEnd(ctx, Released, err, false)
	return err
}

// stop stops the renewals, and does not wait for one that is under way.
func (l *Lease) stop(ctx context.Context) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = l.t.hold.Stop(now)
}

// Detach ends the lease and leaves its claim in the store, to expire by itself. It returns nil also
// if the lease was lost: its claim lived for as long as it was to.
func (l *Lease) Detach(ctx context.Context) error {
	if mine, _ := l.beginEnd(false, endLimit); !mine {
		if err := l.Err(); err == ErrReleased { //nolint:errorlint // this very one
			return err
		}
		return nil
	}
	l.stop(ctx)
	l.finishEnd(ctx, Detached, nil, true)
	return nil
}

// GiveAway ends the lease and leaves its claim in the store for another process, which continues
// with it by Attach. Until then nobody renews the claim: it is given its whole TTL first. It
// returns the terms of the claim.
func (l *Lease) GiveAway(ctx context.Context) (terms keeper.Terms, err error) {
	if err := l.confirm(ctx); err != nil {
		return terms, cmp.Or(l.Err(), l.call.failed("detach", err))
	}
	if mine, _ := l.beginEnd(false, endLimit); !mine {
		return terms, l.Err()
	}
	ctx, cancel := l.t.m.lastCall(ctx, l.call.limit(), new(limited)) // from here on it continues after the end of ctx
	defer cancel()
	if cause := l.t.hold.Stop(ctx); cause != nil {
		err := l.call.Caller.Lost(l.fence, cause)
		l.finishEnd(ctx, WasLost, err, true)
		return terms, err
	}
	l.finishEnd(ctx, Detached, nil, true)
	return l.t.hold.Terms(), nil // Extend may have changed them until now
}

// confirm gives a claim that began with a part of its TTL all of it.
func (l *Lease) confirm(ctx context.Context) error {
	hold := &l.t.hold
	if !hold.Provisional() {
		return nil
	}
	// Nothing else renews it meanwhile: a later answer leaves no time for another attempt.
	call, cancel := l.t.m.Call(ctx, min(CallLimit, hold.Left()/3))
	defer cancel()
	return hold.Confirm(call)
}

// Record ends the lease and leaves its claim in the store as a record, for ttl.
func (l *Lease) Record(ctx context.Context, ttl time.Duration, value []byte) error {
	clock, hold := l.t.m.clock, &l.t.hold
	until := clock.Now() + hold.Left()
	if mine, answer := l.beginEnd(false, endLimit); !mine {
		return cmp.Or(answer, l.Err())
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.call.limit())
	defer cancel()
	err := hold.Stop(call) // no renewal is under way from here on
	if err == nil {
		err = l.keep(ctx, driver.Renewal{ID: l.t.id, TTL: ttl, Value: value, Keep: true}, until)
	}
	typ := Released
	switch {
	case err == nil:
	case isLoss(err):
		err, typ = l.call.Caller.Lost(l.fence, err), WasLost
	default:
		err = l.call.failed("record", err)
	}
	// It is never released: a recording that was not answered may have taken effect.
	l.finishEnd(ctx, typ, err, true)
	return err
}

// keep sends the last renewal, again and again while trust lasts. It is sent although ctx has ended
// or the Manager was closed, but then not for longer than a release would be. If an attempt may
// have taken effect, its error is the answer, whatever later attempts say.
func (l *Lease) keep(ctx context.Context, r driver.Renewal, until time.Duration) error {
	m, ttl := l.t.m, l.call.Terms.TTL
	began := m.clock.Now()
	var unsure error // of the last attempt that may have taken effect
	for {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(CallLimit, ttl/4, until-m.clock.Now()))
		_, err := m.store.Renew(call, r)
		cancel()
		if err == nil || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrInvalid) {
			return err
		}
		if Unknown(err) {
			unsure = err
		}
		now := m.clock.Now()
		pause := min(backoff.Jitter(min(ttl/20, time.Second)), until-now) // short: a ctx that has ended is seen after it
		if pause <= 0 || (ctx.Err() != nil || m.running.Err() != nil) && now-began > CallLimit {
			return cmp.Or(unsure, err)
		}
		time.Sleep(pause)
		if m.clock.Now() >= until {
			return cmp.Or(unsure, err)
		}
	}
}

// endTenure hands the tenure off, or releases the claim. The caller ends the lease: see beginEnd.
func (l *Lease) endTenure(ctx context.Context) error {
	if l.handOff() {
		l.event(ctx, Event{Type: HandedOff, Took: l.t.m.clock.Awake() - l.since})
		return nil
	}
	return l.release(ctx)
}

// handOff hands the tenure off to the next call of this process. It reports whether it did.
func (l *Lease) handOff() bool {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	handed := !l.tried && l.t.lease == l && l.t.handOffLocked()
	if handed {
		l.answerLocked(nil, true)
	}
	return handed
}

// release releases the claim in the store.
func (l *Lease) release(ctx context.Context) error {
	hold, limit := &l.t.hold, l.call.limit()
	if !l.tried {
		limit = min(CallLimit, max(hold.Life(), minRelease))
	}
	mem := &l.last
	if l.tried {
		mem = new(limited) // the first call may still be under way
	}
	call, cancel := l.t.m.lastCall(ctx, limit, mem)
	defer cancel()
	err := error(nil)
	if !l.tried {
		err = hold.Stop(call) // no renewal is under way from here on
	}
	if err == nil {
		if call.Err() != nil { // the wait for a renewal of many claims took all the time
			var more context.CancelFunc
			call, more = l.t.m.lastCall(ctx, withdrawLimit, new(limited))
			defer more()
		}
		err = l.endClaim(call)
	}
	final, typ := true, Released
	switch {
	case err == nil:
	case isLoss(err):
		err, typ = l.call.Caller.Lost(l.fence, err), WasLost
	default:
		err, final = l.call.failed("release", err), false
	}
	l.finishEnd(ctx, typ, err, final)
	return err
}

// minRelease is how long a release may take at least, however little trust is left.
const minRelease = 100 * time.Millisecond

// isLoss reports whether a lease that ended with err was lost.
func isLoss(err error) bool {
	return errors.Is(err, driver.ErrNotHeld) || errors.Is(err, keeper.ErrExpired) || errors.Is(err, keeper.ErrMaxHold)
}

// The pauses between the attempts of a release. The first ones are short: most failures are those
// of a connection that the server has closed, and the next connection is good.
const (
	minReleasePause = 5 * time.Millisecond
	maxReleasePause = 250 * time.Millisecond
)

// endClaim ends the claim, and repeats that while ctx lasts if the store did not do it or did not
// answer.
//
// A claim that is gone after an attempt that failed was ended by that attempt, or lost: the store
// does not know which, and a majority may have ended a part of it. It counts as released: the lease
// was trusted when the caller had finished, and a loss after that is of no concern.
//
// If an attempt may have ended the claim, its error is the answer, whatever later attempts say.
func (l *Lease) endClaim(ctx context.Context) error {
	var unsure error // of the last attempt that may have ended the claim
	for n := 1; ; n++ {
		err := l.endClaimOnce(ctx)
		switch {
		case errors.Is(err, driver.ErrNotHeld) && (l.tried || unsure != nil):
			return nil
		case err == nil, errors.Is(err, driver.ErrNotHeld), errors.Is(err, driver.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
			return err
		}
		if Unknown(err) {
			unsure = err
		}
		pause := time.NewTimer(backoff.Pause(n, minReleasePause, maxReleasePause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return cmp.Or(unsure, err)
		}
	}
}

// endClaimOnce releases the claim, or has it expire when its shortest hold has passed.
func (l *Lease) endClaimOnce(ctx context.Context) error {
	m, id := l.t.m, l.t.id
	if left := l.call.MinHold - (m.clock.Awake() - l.since); left > 0 && !l.unused {
		_, err := m.store.Renew(ctx, driver.Renewal{ID: id, TTL: max(left, m.features.MinTTL)})
		return err
	}
	return m.store.Release(ctx, id)
}

// Unanswered returns the error of End if the store does not answer.
func (l *Lease) Unanswered() error { return l.call.unknown("release", ErrNoAnswer) }

// beginEnd makes the caller the one that ends the lease, and ends its contexts. If another ends or
// ended it, or it was lost, beginEnd waits for that answer, for patience at most, and returns it. A
// release that was not answered may be made again.
func (l *Lease) beginEnd(again bool, patience time.Duration) (mine bool, answer error) {
	why := cmp.Or(l.Err(), ErrReleased) // a loss that nobody has reported yet came before this
	other, ends, mine, answer := l.claimEnd(again, why)
	for _, end := range ends { // the work ends before that of another holder can begin
		end(why)
	}
	if other == nil {
		return mine, answer
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-other:
	case <-enough.C:
		return false, l.Unanswered()
	}
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	return false, l.answer
}

// claimEnd decides who ends the lease. If the caller does, ends are the functions that end the
// contexts; if another does, other is closed when it has finished.
func (l *Lease) claimEnd(again bool, why error) (other chan struct{}, ends []context.CancelCauseFunc, mine bool, answer error) {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	l.endWorkLocked()
	if lost := l.why.Load(); l.state != ended && lost != nil && *lost != ErrReleased { //nolint:errorlint // this very one
		l.answerLocked(*lost, true)
	}
	switch {
	case l.state == ending:
		if l.finished == nil {
			l.finished = make(chan struct{})
		}
		return l.finished, nil, false, nil
	case l.state == ended || l.state == unanswered && !again:
		return nil, nil, false, l.answer
	}
	l.state = ending
	return nil, l.endLocked(why), true, nil
}

// finishEnd ends the tenure together with the lease. It reports that, unless that was done before:
// by the tenure, when it was lost, or by a release that was not answered.
func (l *Lease) finishEnd(ctx context.Context, typ string, err error, final bool) {
	e := Event{Type: typ, Err: err}
	if typ == WasLost {
		e.Risk = l.t.hold.Risk()
	}
	if !l.finishTenure(typ, err, final) {
		e.Took = l.t.m.clock.Awake() - l.since
		l.event(ctx, e)
	}
}

// finishTenure removes the tenure. It reports whether the end was reported before.
func (l *Lease) finishTenure(typ string, err error, final bool) (reported bool) {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	reported = l.tried || typ == WasLost && l.t.lease == nil
	l.tried = !final
	l.answerLocked(err, final)
	l.t.removeLocked()
	return reported
}

// answerLocked notes the answer of End; if it is final, no further release is made.
func (l *Lease) answerLocked(answer error, final bool) {
	l.state, l.answer = unanswered, answer
	if final {
		l.state = ended
	}
	if l.finished != nil {
		close(l.finished)
		l.finished = nil
	}
}
