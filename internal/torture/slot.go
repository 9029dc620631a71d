package torture

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/history"
)

// slots is how many may hold a counted key at once.
const slots = 2

// slot takes one of a few slots by the contract itself, without the library's line and renewals, and
// gives it back.
func (c *client) slot(ctx context.Context) {
	id := driver.ID{Key: c.key() + "/slots", Owner: rand.Text()}
	h := c.rec.Ask(history.Want{Client: c.name, Key: id.Key, TTL: c.plan.TTL, Weight: 1, Limit: slots})
	fence, until, ok := c.ask(ctx, h, id)
	if ok {
		h.Granted(fence, until)
		select {
		case <-time.After(time.Until(until)):
			h.Lost()
		case <-time.After(c.work()):
		}
	}
	// Also without a grant: its answer may have been lost.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.plan.TTL)
	defer cancel()
	if !ok {
		_ = c.link.Release(late, id)
		return
	}
	release := h.Release()
	release.End(history.Answer(c.link.Release(late, id)))
}

// ask asks for a slot until there is one, or for as long as a TTL.
func (c *client) ask(ctx context.Context, h *history.Hold, id driver.ID) (fence uint64, until time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.plan.TTL)
	defer cancel()
	for {
		sent := time.Now()
		res, err := c.link.Acquire(ctx, driver.Request{ID: id, Weight: 1, Limit: slots, TTL: c.plan.TTL, Holder: "torture " + c.name})
		switch {
		case err != nil:
			h.Ended(history.Answer(err))
			return 0, time.Time{}, false
		case res.Granted:
			return res.Fence, sent.Add(c.plan.TTL * 9 / 10), true // the library's margin
		}
		h.Waiting()
		if !c.sleep(ctx, 5*time.Millisecond+c.upTo(10*time.Millisecond)) {
			h.Ended(history.Refused)
			return 0, time.Time{}, false
		}
	}
}
