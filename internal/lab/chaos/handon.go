package chaos

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// HandOn makes a store of s that does not wait to be asked: when a claim is released or broken, the head of the line is
// granted its own for the rest of its place, and told so. Stores over a network do that to save a round trip.
func HandOn(s driver.Store) driver.Store {
	return &handing{Store: s, places: map[driver.ID]place{}, told: map[driver.ID][]chan driver.Wake{}}
}

type handing struct {
	driver.Store

	mu     sync.Mutex
	places map[driver.ID]place
	told   map[driver.ID][]chan driver.Wake
}

// A place is what its owner asked for when it was last refused.
type place struct {
	r    driver.Request
	ends time.Time
}

// Acquire takes note of places.
func (h *handing) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	res, err := h.Store.Acquire(ctx, r)
	switch {
	case err != nil:
	case res.Granted:
		delete(h.places, r.ID)
		h.handOn(ctx, r.Key) // it may have been a downgrade
	case r.QueueTTL > 0:
		h.places[r.ID] = place{r, time.Now().Add(r.QueueTTL)}
	}
	return res, err
}

// Release hands the key on.
func (h *handing) Release(ctx context.Context, id driver.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.Store.Release(ctx, id)
	delete(h.places, id)
	h.handOn(ctx, id.Key)
	return err
}

// Break hands the key on.
func (h *handing) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cs, err := driver.Break(ctx, h.Store, key, upTo, reason)
	h.handOn(ctx, key)
	return cs, err
}

// Show is the store's own.
func (h *handing) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return driver.Show(ctx, h.Store, key)
}

// List is the store's own.
func (h *handing) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return driver.List(ctx, h.Store, prefix)
}

// RenewAll is the store's own.
func (h *handing) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	return driver.RenewAll(ctx, h.Store, rs)
}

// handOn grants the head of the line its claim, if there is room, and the next one too.
func (h *handing) handOn(ctx context.Context, key string) {
	for {
		claims, err := h.Show(ctx, key)
		if err != nil {
			return
		}
		p, ok := h.head(claims)
		if !ok {
			return
		}
		p.r.TTL, p.r.QueueTTL = time.Until(p.ends), 0
		res, err := h.Store.Acquire(ctx, p.r)
		if err != nil || !res.Granted {
			return
		}
		delete(h.places, p.r.ID)
		for _, out := range h.told[p.r.ID] {
			wake(out, driver.Wake{Granted: true, Fence: res.Fence, Behind: res.Behind})
		}
	}
}

// head finds the place of the first in line.
func (h *handing) head(claims []driver.Claim) (place, bool) {
	for _, c := range claims {
		if !c.Waiting {
			continue
		}
		for id, p := range h.places {
			if id.Key == c.Key && driver.Tag(id.Owner) == c.Owner {
				return p, time.Until(p.ends) > 0
			}
		}
		return place{}, false
	}
	return place{}, false
}

// Watch passes on what the store tells, but for the wake-ups of those who were granted their claims.
func (h *handing) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	in, out := driver.Watch(ctx, h.Store, id), make(chan driver.Wake, 1)
	h.mu.Lock()
	h.told[id] = append(h.told[id], out)
	h.mu.Unlock()
	go func() {
		for {
			select {
			case <-ctx.Done():
				h.mu.Lock()
				delete(h.told, id)
				h.mu.Unlock()
				return
			case told := <-in:
				h.mu.Lock()
				if _, waits := h.places[id]; waits || id.Owner == "" {
					wake(out, told)
				}
				h.mu.Unlock()
			}
		}
	}()
	return out
}
