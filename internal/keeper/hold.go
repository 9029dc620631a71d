package keeper

import (
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
	// ErrMaxHold is the cause of a loss: the hold reached its MaxHold.
	ErrMaxHold = errors.New("held for the longest time permitted")
	// ErrStopped is the cause of a hold that [Hold.Stop] or [Keeper.Close] ended.
	ErrStopped = errors.New("stopped")
)

const never = time.Duration(math.MaxInt64)

// Terms say how the keeper keeps a claim.
type Terms struct {
	TTL     time.Duration // how long each renewal may be trusted, minus the margin
	Delay   time.Duration // how much longer than TTL the store keeps the claim
	Fixed   bool          // the claim is not renewed
	MaxHold time.Duration // trust ends this long after the hold began; 0: no bound
}

// StoreTTL returns the TTL that the keeper requests from the store.
func (t Terms) StoreTTL() time.Duration { return t.TTL + t.Delay }

// Margin returns the part of a TTL that is not trusted. The margin covers clocks that run at
// different rates, and gives the holder time to stop its work.
func Margin(ttl time.Duration) time.Duration { return max(ttl/100, min(ttl/10, time.Second)) }

// tries divides a TTL: one renewal may take TTL/tries, so that time is left for another try.
const tries = 4

// confirmAfter is how long the keeper waits before it renews a provisional claim for its whole
// TTL. Most contended claims are released before that.
const confirmAfter = 20 * time.Millisecond

// A Hold is a claim that is kept alive. [Keeper.Keep] makes one.
type Hold struct {
	k        *Keeper
	id       driver.ID
	listener Listener

	// until is the end of trust on the keeper's clock: the earlier of valid and cut. It is
	// read without the keeper's lock and written with the lock.
	until atomic.Int64

	// The keeper's lock guards all fields below.
	terms       Terms
	valid       time.Duration // when trust ends by the last successful renewal
	given       time.Duration // the TTL of that renewal
	cut         time.Duration // when MaxHold ends the hold
	renew       time.Duration // when the next renewal is due, if none is in flight
	at          time.Duration // when the keeper must check this hold next
	index       int           // in the keeper's heap; -1: not there
	risk        bool          // the last renewal failed
	provisional bool          // the claim has never had its whole TTL
	notifying   bool          // a goroutine is calling the listener
	inFlight    *batch        // the renewal under way, or nil
	ended       error         // why the hold ended; nil: it has not ended
	notices     []notice      // calls that the listener has not had yet
}

// Trusted reports whether the hold can be trusted for more than d from now.
func (h *Hold) Trusted(d time.Duration) bool { return h.Left() > d }

// Left returns how long the hold can be trusted without another renewal. It returns 0 or less if
// the hold cannot be trusted now.
func (h *Hold) Left() time.Duration {
	return time.Duration(h.until.Load()) - h.k.clock.Now()
}

// Life returns how long the store certainly keeps the claim without another renewal. Unlike
// [Hold.Left] it ends neither with MaxHold nor with [Hold.Stop].
func (h *Hold) Life() time.Duration {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.valid - h.k.clock.Now()
}

// Provisional reports whether the claim was granted for less than its TTL and has not been
// renewed yet.
func (h *Hold) Provisional() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.provisional
}

// Risk reports whether the last renewal failed, also after the hold has ended.
func (h *Hold) Risk() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.risk
}

// Terms returns the current terms of the hold.
func (h *Hold) Terms() Terms {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.terms
}

// Cause returns nil while the hold lasts. Afterwards it returns why the hold ended: [ErrExpired],
// [ErrMaxHold], [ErrStopped] or the answer of the store. Cause neither waits for a renewal nor
// calls the listener. If trust has ended and nothing has recorded the loss yet, Cause returns the
// loss as of now; call [Hold.Lose] first to record it.
func (h *Hold) Cause() error {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.ended == nil && !h.Trusted(0) {
		return h.overdue()
	}
	return h.ended
}

// Lose ends the hold if its trust has ended, and reports whether the hold has ended. When Lose
// returns, the listener has been notified or another goroutine is notifying it.
func (h *Hold) Lose() bool {
	if h.Trusted(0) {
		return false
	}
	h.k.mu.Lock()
	if h.Trusted(0) { // renewed since the first check
		h.k.mu.Unlock()
		return false
	}
	h.lose(h.overdue())
	h.k.mu.Unlock()
	h.notify()
	return true
}

// Gone ends the hold because the store has reported that the claim no longer exists.
func (h *Hold) Gone() {
	h.k.mu.Lock()
	h.lose(driver.ErrNotHeld)
	h.k.mu.Unlock()
	h.notify()
}

// Stop ends the hold without a call to the store, and waits until no renewal is in flight or ctx
// ends. It returns nil if the hold was trusted until now, and otherwise why the hold had ended.
func (h *Hold) Stop(ctx context.Context) error {
	h.Lose()
	h.k.mu.Lock()
	cause := h.ended
	h.stop()
	inFlight := h.inFlight
	h.k.mu.Unlock()
	if inFlight != nil { // a lost hold can have one too
		_ = inFlight.wait(ctx)
	}
	return cause
}

// HandOff records that the hold has a new user, who may keep it for maxHold; 0: no bound. HandOff
// does not bring back a hold whose trust has ended.
func (h *Hold) HandOff(maxHold time.Duration) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.Trusted(0) {
		h.bound(maxHold)
		h.plan()
	}
}

// The functions below are called with the keeper's lock held.

// bound sets when MaxHold ends the hold.
func (h *Hold) bound(maxHold time.Duration) {
	h.terms.MaxHold, h.cut = maxHold, never
	if maxHold > 0 {
		h.cut = h.k.clock.Now() + maxHold
	}
}

// answered records the store's answer to a renewal that was sent at sent.
func (h *Hold) answered(sent, now time.Duration, a driver.Renewed) {
	left := time.Duration(h.until.Load()) - now
	r := Renewal{Took: now - sent, Left: left, Behind: a.Behind, Err: a.Err, Risk: h.risk}
	if a.Err == nil && left > 0 && !h.provisional {
		r.Margin = h.valid - now
		r.Thin = r.Margin < h.given/tries
	}
	h.notices = append(h.notices, notice{r: r})
	switch {
	case left <= 0: // too late, also for a good answer: a caller may have seen that trust had ended
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

// renewed records that a request sent at sent gave the claim a new TTL. Trust never becomes
// shorter here, because an answer can overtake a later one.
func (h *Hold) renewed(sent time.Duration) {
	ttl := h.terms.TTL
	h.valid, h.given = max(h.valid, sent+ttl-Margin(ttl)), ttl
	h.risk, h.provisional = false, false
	h.renew = never
	if !h.terms.Fixed {
		h.renew = sent + jitter(ttl/3) // two more tries fit before trust ends
	}
}

// failed records that a renewal failed.
func (h *Hold) failed() {
	h.risk = true
	if !h.terms.Fixed {
		pause := h.terms.TTL / 20 // the store is in trouble: try again while there is trust
		if h.provisional {
			pause = min(pause, 10*confirmAfter) // a provisional claim has less trust left
		}
		h.renew = h.k.clock.Now() + jitter(pause)
	}
}

// plan publishes the end of trust, and schedules the next check of the hold.
func (h *Hold) plan() {
	until := min(h.valid, h.cut)
	h.until.Store(int64(until))
	h.at = until
	if h.inFlight == nil {
		h.at = min(until, h.renew)
	}
	h.k.put(h)
}

// limit returns how long a renewal may take. A later answer would leave no time for another try.
func (h *Hold) limit() time.Duration {
	limit := h.terms.TTL / tries
	// A hold that has ended has no trust left, and must not shorten the time of its batch.
	if h.provisional && h.ended == nil {
		limit = min(limit, max(h.Left(), 0)/3)
	}
	return limit
}

// overdue returns the cause of a loss that happens now because trust has ended.
func (h *Hold) overdue() error {
	if h.cut < h.valid {
		return ErrMaxHold
	}
	return ErrExpired
}

// size returns a class of holds that fit into one batch. It grows by one as the TTL doubles. A
// provisional hold, whose renewal has little time, shares no batch with others.
func (h *Hold) size() int {
	size := bits.Len64(uint64(h.terms.TTL))
	if h.provisional {
		return -size
	}
	return size
}

// lose ends the hold and queues the loss for the listener.
func (h *Hold) lose(cause error) {
	if h.end(cause) {
		h.notices = append(h.notices, notice{lost: cause})
	}
}

// stop ends the hold. The listener gets no more calls.
func (h *Hold) stop() {
	if h.end(ErrStopped) {
		h.notices = nil
	}
}

// end removes the hold from the keeper. It reports whether this call ended the hold.
func (h *Hold) end(cause error) bool {
	if h.ended != nil {
		return false
	}
	h.ended = cause
	h.until.Store(math.MinInt64 / 2) // far enough in the past, and Left does not overflow
	h.k.drop(h)
	if h.inFlight != nil {
		h.inFlight.detach()
	}
	return true
}

// jitter spreads d by a tenth, so that holds that began together do not stay together.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
