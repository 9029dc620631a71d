package keeper

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

var (
	// ErrExpired is the cause of a loss: trust ended before a renewal succeeded.
	ErrExpired = errors.New("not renewed in time")
	// ErrMaxHold is the cause of a loss: the hold reached its longest permitted time.
	ErrMaxHold = errors.New("held for the longest time permitted")
	// ErrStopped is what is left of a hold after Stop.
	ErrStopped = errors.New("stopped")
)

const never = time.Duration(math.MaxInt64)

// Terms are how a claim is to be kept.
type Terms struct {
	TTL     time.Duration // how long each renewal may be trusted, less the margin
	Delay   time.Duration // how much longer than TTL the store keeps the claim
	Fixed   bool          // the claim is not renewed
	MaxHold time.Duration // trust ends this long after the hold began; 0: no bound
}

// StoreTTL is the TTL that the store is asked for.
func (t Terms) StoreTTL() time.Duration { return t.TTL + t.Delay }

// Margin is the part of a TTL that is not trusted: it makes up for clocks that run at
// different rates, and gives the work time to stop.
func Margin(ttl time.Duration) time.Duration { return max(ttl/100, min(ttl/10, time.Second)) }

// tries is into how many parts a TTL is cut: a renewal may take one of them, so that there is time for another try.
const tries = 4

// youth is how long a claim that was given only a part of its TTL is left alone before it is given all of it. Most
// that others wait for end before.
const youth = 20 * time.Millisecond

// A Hold is a claim that is kept alive. Make one with Keeper.Keep.
type Hold struct {
	k        *Keeper
	id       driver.ID
	listener Listener

	// until is when trust ends, on the keeper's clock: the earlier of valid and cut. It is
	// read without the keeper's lock and written with it.
	until atomic.Int64

	// The rest is guarded by the keeper's lock.
	terms Terms
	valid time.Duration // when trust ends by the last good renewal
	given time.Duration // the TTL that came with that
	cut   time.Duration // when MaxHold is over
	renew time.Duration // when the next renewal is due, if none is under way
	at    time.Duration // when the keeper has to look at this hold next
	index int           // in the keeper's queue; -1: not there
	risk  bool          // the last renewal failed
	young bool          // it was never given all of its TTL
	under *batch        // the renewal under way, if any
	ended error         // why the hold is over; nil: it is not

	news    []news // what the listener has yet to be told
	telling bool   // somebody is telling it
}

// Trusted reports whether the hold may still be trusted in d from now.
func (h *Hold) Trusted(d time.Duration) bool { return h.Left() > d }

// Left is how long the hold may be trusted unless it is renewed; at most 0 if it may not.
func (h *Hold) Left() time.Duration {
	return time.Duration(h.until.Load()) - h.k.clock.Now()
}

// Life is how long the store can be trusted to keep the claim unless it is renewed. Unlike Left it
// does not end with MaxHold or Stop.
func (h *Hold) Life() time.Duration {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.valid - h.k.clock.Now()
}

// Provisional reports whether the claim was granted for less than its TTL and has not been renewed yet.
func (h *Hold) Provisional() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.young
}

// Risk reports whether the last renewal failed, also of a hold that is over.
func (h *Hold) Risk() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.risk
}

// Terms returns how the hold is being kept.
func (h *Hold) Terms() Terms {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.terms
}

// Lose ends the hold if its trust is over, and reports whether it is over. The listener has
// been told when Lose returns, or is being told by somebody else.
func (h *Hold) Lose() bool {
	if h.Trusted(0) {
		return false
	}
	h.k.mu.Lock()
	if h.Trusted(0) { // renewed since the first look
		h.k.mu.Unlock()
		return false
	}
	h.lose(h.overdue())
	h.k.mu.Unlock()
	h.tell()
	return true
}

// Gone ends the hold because the store says that the claim is no longer there.
func (h *Hold) Gone() {
	h.k.mu.Lock()
	h.lose(driver.ErrNotHeld)
	h.k.mu.Unlock()
	h.tell()
}

// Stop ends the hold without a word to the store, and waits until no renewal is under way or ctx
// ends. It returns nil if the hold was trusted until now, and otherwise why it had ended.
func (h *Hold) Stop(ctx context.Context) error {
	h.Lose()
	h.k.mu.Lock()
	why := h.ended
	h.stop()
	under := h.under
	h.k.mu.Unlock()
	if under != nil { // also of a hold that is lost
		_ = under.wait(ctx)
	}
	return why
}

// Extend renews the hold now, and keeps it by a new TTL from then on: a shorter one even if the
// call fails, since the store may have obeyed it. It returns what the store answered; if the hold is
// over, ErrStopped or the cause of the loss.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) error {
	if err := h.rest(ctx); err != nil {
		return err
	}
	return h.extend(ctx, ttl)
}

// Confirm is Extend by the TTL that the hold is kept by, if it is young. If not, it does nothing.
func (h *Hold) Confirm(ctx context.Context) error {
	if err := h.rest(ctx); err != nil {
		return err
	}
	if !h.young { // an Extend may have been under way
		h.k.mu.Unlock()
		return nil
	}
	return h.extend(ctx, h.terms.TTL)
}

// Ensure is Extend by the TTL that the hold is kept by, if the hold may not be trusted in d from
// now. If it may, it does nothing.
func (h *Hold) Ensure(ctx context.Context, d time.Duration) error {
	if err := h.rest(ctx); err != nil {
		return err
	}
	if h.Trusted(d) { // a renewal may have been under way
		h.k.mu.Unlock()
		return nil
	}
	return h.extend(ctx, h.terms.TTL)
}

// rest waits until no renewal of h is under way. It returns with the keeper's lock held, or an error and without: why the hold
// is over, or ctx.
func (h *Hold) rest(ctx context.Context) error {
	for {
		h.Lose()
		h.k.mu.Lock()
		under, ended := h.under, h.ended
		if under == nil && ended == nil {
			return nil
		}
		h.k.mu.Unlock()
		if ended != nil {
			return ended
		}
		if err := under.wait(ctx); err != nil {
			return err
		}
	}
}

// extend renews h, of which no renewal is under way, for a new TTL. It is called with the keeper's lock held and returns without.
func (h *Hold) extend(ctx context.Context, ttl time.Duration) error {
	h.k.wg.Add(1)
	defer h.k.wg.Done()
	terms := h.terms
	terms.TTL = ttl
	b, sent := newBatch(ctx, nil), h.k.clock.Now()
	b.add(h)
	// The call may shorten the claim, and its answer may be lost: trust must not
	// outlast what the store may have made of the claim, now or by a later try.
	h.terms.TTL = min(h.terms.TTL, ttl)
	h.valid = min(h.valid, sent+ttl-Margin(ttl))
	h.given = min(h.given, ttl)
	h.plan()
	h.k.mu.Unlock()
	out := h.k.send(b.ctx, []driver.Renewal{{ID: h.id, TTL: terms.StoreTTL()}}) //nolint:contextcheck // it is made of ctx
	if out[0].Err == nil {
		h.k.mu.Lock()
		h.terms.TTL = ttl
		h.k.mu.Unlock()
	}
	h.k.settle(b, sent, out)
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return cmp.Or(h.ended, out[0].Err)
}

// Alone lets do make a call that gives the claim its TTL anew, with no renewal under way beside it: the store obeys the
// last that arrives, and of two with different TTLs that might be the shorter one, while the longer one is trusted. do is
// given the TTL to ask the store for, and may call Again. It is not called if the hold is over, which Alone returns then.
func (h *Hold) Alone(ctx context.Context, do func(ctx context.Context, ttl time.Duration) error) error {
	if err := h.rest(ctx); err != nil {
		return err
	}
	if h.renew <= h.k.clock.Now() {
		// A renewal that is due goes first: calls one after the other would keep it off until trust is over.
		call, cancel := context.WithTimeout(ctx, h.limit())
		_ = h.extend(call, h.terms.TTL)
		cancel()
		if err := h.rest(ctx); err != nil {
			return err
		}
	}
	h.k.wg.Add(1)
	defer h.k.wg.Done()
	b, ttl, limit := newBatch(ctx, nil), h.terms.StoreTTL(), h.limit()
	b.add(h)
	h.plan()
	h.k.mu.Unlock()
	defer func() { // also if do panics
		h.k.mu.Lock()
		h.under = nil
		if h.ended == nil {
			h.plan()
		}
		h.k.mu.Unlock()
		b.end()
	}()
	call, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return do(call, ttl) //nolint:contextcheck // it is made of ctx
}

// Again says that the store granted the claim once more, asked for at sent: its TTL began anew.
// It does not bring back a hold whose trust is over.
func (h *Hold) Again(sent time.Duration) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.Trusted(0) {
		h.renewed(sent)
		h.plan()
	}
}

// Pass says that the hold is in new hands, which may keep it for maxHold; 0: no bound. It
// does not bring back a hold whose trust is over.
func (h *Hold) Pass(maxHold time.Duration) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.Trusted(0) {
		h.bound(maxHold)
		h.plan()
	}
}

// What follows is called with the keeper's lock held.

// bound sets when MaxHold is over.
func (h *Hold) bound(maxHold time.Duration) {
	h.terms.MaxHold, h.cut = maxHold, never
	if maxHold > 0 {
		h.cut = h.k.clock.Now() + maxHold
	}
}

// answered notes what the store said to a renewal that was sent at sent.
func (h *Hold) answered(sent, now time.Duration, a driver.Renewed) {
	left := time.Duration(h.until.Load()) - now
	r := Renewal{Took: now - sent, Left: left, Behind: a.Behind, Err: a.Err, Risk: h.risk}
	if a.Err == nil && left > 0 && !h.young {
		r.Margin = h.valid - now
		r.Thin = r.Margin < h.given/tries
	}
	h.news = append(h.news, news{r: r})
	switch {
	case left <= 0: // too late, also for a good answer: somebody may have seen that trust was over
		h.lose(h.overdue())
	case a.Err == nil:
		h.renewed(sent)
		h.plan()
	case errors.Is(a.Err, driver.ErrNotHeld):
		h.lose(a.Err)
	default:
		h.failed()
		h.plan()
	}
}

// renewed notes that a request sent at sent gave the claim a new TTL. Trust never gets
// shorter by that: an answer may overtake a later one.
func (h *Hold) renewed(sent time.Duration) {
	ttl := h.terms.TTL
	h.valid, h.given = max(h.valid, sent+ttl-Margin(ttl)), ttl
	h.risk, h.young = false, false
	h.renew = never
	if !h.terms.Fixed {
		h.renew = sent + jitter(ttl/3) // two more tries fit before trust ends
	}
}

// failed notes that a renewal failed.
func (h *Hold) failed() {
	h.risk = true
	if !h.terms.Fixed {
		pause := h.terms.TTL / 20 // the store is troubled: try again while there is trust
		if h.young {
			pause = min(pause, 10*youth) // there is less of it
		}
		h.renew = h.k.clock.Now() + jitter(pause)
	}
}

// plan publishes until when the hold is trusted, and when the keeper looks at it next.
func (h *Hold) plan() {
	until := min(h.valid, h.cut)
	h.until.Store(int64(until))
	h.at = until
	if h.under == nil {
		h.at = min(until, h.renew)
	}
	h.k.put(h)
}

// limit is how long a renewal may take: an answer later than this leaves no time for another try.
func (h *Hold) limit() time.Duration {
	limit := h.terms.TTL / tries
	if h.young && h.ended == nil { // one that is over has nothing left, and must not take the time of others
		limit = min(limit, max(h.Left(), 0)/3)
	}
	return limit
}

// overdue is why the hold is lost if it is lost now.
func (h *Hold) overdue() error {
	if h.cut < h.valid {
		return ErrMaxHold
	}
	return ErrExpired
}

// size tells TTLs apart that are too different for one batch: it grows by one as the TTL doubles.
func (h *Hold) size() int { return bits.Len64(uint64(h.terms.TTL)) }

// lose ends the hold, for the listener to be told.
func (h *Hold) lose(cause error) {
	if h.end(cause) {
		h.news = append(h.news, news{lost: cause})
	}
}

// stop ends the hold, and the listener is told nothing more.
func (h *Hold) stop() {
	if h.end(ErrStopped) {
		h.news = nil
	}
}

// end takes the hold out of the keeper's hands. It reports whether it was the first to do so.
func (h *Hold) end(cause error) bool {
	if h.ended != nil {
		return false
	}
	h.ended = cause
	h.until.Store(math.MinInt64 / 2) // far enough in the past, and Left does not overflow
	h.k.drop(h)
	if h.under != nil {
		h.under.leave()
	}
	return true
}

// jitter spreads d by a tenth, so that what began together does not stay together.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
