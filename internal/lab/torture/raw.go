package torture

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
)

// slots is the number of holders that a counted key may have at once.
const slots = 2

// raw acquires a claim with the driver contract itself, without the library's queue and renewals:
// an exclusive claim, or one of a few slots. Then it does what a network may do to any client: it
// sends copies of requests that ended long ago.
func (c *client) raw(ctx context.Context) {
	f := c.link.Features()
	r := driver.Request{
		ID: driver.ID{Key: c.key(), Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole,
		TTL: c.plan.TTL, Holder: "torture " + c.name,
	}
	if f.Queue {
		r.QueueTTL = c.plan.TTL
	}
	if f.Count && c.rng.IntN(2) == 0 {
		r.Key, r.Weight, r.Limit = r.Key+"/slots", 1, slots
	}
	h := c.rec.Acquire(history.Want{Client: c.name, Key: r.Key, TTL: r.TTL, Weight: r.Weight, Limit: r.Limit})
	fence, until, ok := c.acquire(ctx, h, r)
	if ok {
		h.Granted(fence, until)
		c.sleep(ctx, min(c.work(), time.Until(until)))
		if !time.Now().Before(until) {
			h.Lost()
		}
	}
	// The attempt is undone without a grant too: there may be a queue entry, or the answer was
	// lost.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.plan.TTL)
	defer cancel()
	if !ok {
		_ = c.link.Release(end, r.ID)
		return
	}
	release := h.Release()
	answer := history.Answer(c.link.Release(end, r.ID))
	release.End(answer)
	if answer == history.Done || answer == history.NotHeld { // otherwise a copy would be the first that has an effect
		c.stale(ctx, r.ID)
	}
}

// acquire retries until a claim is granted, or for half a TTL.
func (c *client) acquire(ctx context.Context, h *history.Hold, r driver.Request) (fence uint64, until time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.plan.TTL/2)
	defer cancel()
	for {
		sent := time.Now()
		res, err := c.link.Acquire(ctx, r)
		switch {
		case err != nil:
			h.Ended(history.Answer(err))
			return 0, time.Time{}, false
		case res.Granted:
			return res.Fence, sent.Add(r.TTL * 9 / 10), true // the library's margin
		}
		h.Waiting()
		if !c.sleep(ctx, 5*time.Millisecond+c.upTo(10*time.Millisecond)) {
			h.Ended(history.Refused)
			return 0, time.Time{}, false
		}
	}
}

// stale sends copies of a renewal and a release after the claim has ended. By then the key may
// belong to another claim, and the copies must not affect it. The answers are not checked, but the
// other hold is.
func (c *client) stale(ctx context.Context, id driver.ID) {
	if !c.sleep(ctx, c.upTo(20*time.Millisecond)) {
		return
	}
	end, cancel := context.WithTimeout(ctx, c.plan.TTL)
	defer cancel()
	_, _ = c.link.Renew(end, driver.Renewal{ID: id, TTL: c.plan.TTL})
	_ = c.link.Release(end, id)
}
