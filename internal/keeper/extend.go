package keeper

import (
	"cmp"
	"context"
	"time"

	"github.com/distlock/distlock/driver"
)

// Extend renews the hold now, and keeps it with a new TTL from then on. A shorter TTL applies even
// if the call fails, because the store may have applied it. Extend returns the store's answer. If
// the hold has ended, Extend returns [ErrStopped] or the cause of the loss.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) error {
	if err := h.lockIdle(ctx); err != nil {
		return err
	}
	return h.extend(ctx, ttl)
}

// Confirm renews a provisional hold now for its whole TTL, like [Hold.Extend]. It does nothing if
// the hold is not provisional.
func (h *Hold) Confirm(ctx context.Context) error {
	if err := h.lockIdle(ctx); err != nil {
		return err
	}
	if !h.provisional { // lockIdle may have waited for an Extend
		h.k.mu.Unlock()
		return nil
	}
	return h.extend(ctx, h.terms.TTL)
}

// Ensure renews the hold now with its own TTL, like [Hold.Extend], unless the hold can already be
// trusted for d from now.
func (h *Hold) Ensure(ctx context.Context, d time.Duration) error {
	if err := h.lockIdle(ctx); err != nil {
		return err
	}
	if h.Trusted(d) { // lockIdle may have waited for a renewal
		h.k.mu.Unlock()
		return nil
	}
	return h.extend(ctx, h.terms.TTL)
}

// lockIdle waits until h has no renewal in flight and returns nil with the keeper's lock held. It
// returns an error without the lock if the hold has ended, or if ctx ends first.
func (h *Hold) lockIdle(ctx context.Context) error {
	for {
		h.Lose()
		h.k.mu.Lock()
		inFlight, ended := h.inFlight, h.ended
		if inFlight == nil && ended == nil {
			return nil
		}
		h.k.mu.Unlock()
		if ended != nil {
			return ended
		}
		if err := inFlight.wait(ctx); err != nil {
			return err
		}
	}
}

// extend renews h with a new TTL. No renewal of h is in flight. The caller holds the keeper's lock,
// and extend releases it.
func (h *Hold) extend(ctx context.Context, ttl time.Duration) error {
	h.k.wg.Add(1)
	defer h.k.wg.Done()
	terms := h.terms
	terms.TTL = ttl
	b, sent := newBatch(ctx, nil), h.k.clock.Now()
	b.add(h)
	// The call may shorten the claim, and its answer may be lost. Trust must not outlast the
	// claim that the store may have shortened, now or by a later try.
	h.terms.TTL = min(h.terms.TTL, ttl)
	h.valid = min(h.valid, sent+ttl-Margin(ttl))
	h.given = min(h.given, ttl)
	h.plan()
	h.k.mu.Unlock()
	out := h.k.send(b.ctx, []driver.Renewal{{ID: h.id, TTL: terms.StoreTTL()}}) //nolint:contextcheck // b.ctx is made of ctx
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

// Alone lets do make a call that starts the claim's TTL again, while no renewal is in flight. The
// store applies the request that arrives last: if two requests had different TTLs, the shorter one
// could win while the longer one is trusted. do gets the TTL to request from the store, and may
// call [Hold.Again]. If the hold has ended, Alone returns the cause and does not call do.
func (h *Hold) Alone(ctx context.Context, do func(ctx context.Context, ttl time.Duration) error) error {
	if err := h.lockIdle(ctx); err != nil {
		return err
	}
	if h.renew <= h.k.clock.Now() {
		// A renewal that is due goes first: an unbroken series of calls would otherwise delay
		// it until trust has ended.
		call, cancel := context.WithTimeout(ctx, h.limit())
		_ = h.extend(call, h.terms.TTL)
		cancel()
		if err := h.lockIdle(ctx); err != nil {
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
		h.inFlight = nil
		if h.ended == nil {
			h.plan()
		}
		h.k.mu.Unlock()
		b.end()
	}()
	call, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return do(call, ttl) //nolint:contextcheck // call is made of ctx
}

// Again records that the store granted the claim once more, by a request sent at sent: the TTL
// started again then. Again does not bring back a hold whose trust has ended.
func (h *Hold) Again(sent time.Duration) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.Trusted(0) {
		h.renewed(sent)
		h.plan()
	}
}
