package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// HandOff returns a store that pushes grants: when a claim of s is released or broken, the store
// grants the first waiter its claim for the rest of its queue TTL, and notifies it. Stores over a
// network do so to save a round trip.
func HandOff(s driver.Store) driver.Store {
	return &pushing{
		Forward: driver.Forward{Store: s},
		entries: map[driver.ID]entry{}, watches: map[driver.ID][]chan driver.Wake{},
	}
}

type pushing struct {
	driver.Forward

	mu      sync.Mutex
	entries map[driver.ID]entry
	watches map[driver.ID][]chan driver.Wake
}

// An entry is the request of an owner that was refused last, and the end of its queue entry.
type entry struct {
	r    driver.Request
	ends time.Time
}

// Acquire records the queue entries.
func (h *pushing) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	res, err := h.Store.Acquire(ctx, r)
	switch {
	case err != nil:
	case res.Granted:
		delete(h.entries, r.ID)
		h.handOff(ctx, r.Key) // it may have been a downgrade
	case r.QueueTTL > 0:
		h.entries[r.ID] = entry{r, time.Now().Add(r.QueueTTL)}
	}
	return res, err
}

// Release hands the key to the next waiter.
func (h *pushing) Release(ctx context.Context, id driver.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.Store.Release(ctx, id)
	delete(h.entries, id)
	h.handOff(ctx, id.Key)
	return err
}

// Break hands the key to the next waiter.
func (h *pushing) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cs, err := driver.Break(ctx, h.Store, key, upTo, reason)
	h.handOff(ctx, key)
	return cs, err
}

// handOff grants the first waiter its claim, if there is capacity, and then the next one.
func (h *pushing) handOff(ctx context.Context, key string) {
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
		delete(h.entries, p.r.ID)
		for _, out := range h.watches[p.r.ID] {
			wake(out, driver.Wake{Granted: true, Fence: res.Fence, Behind: res.Behind})
		}
	}
}

// head returns the entry of the first waiter.
func (h *pushing) head(claims []driver.Claim) (entry, bool) {
	for _, c := range claims {
		if !c.Waiting {
			continue
		}
		for id, p := range h.entries {
			if id.Key == c.Key && driver.Tag(id.Owner) == c.Owner {
				return p, time.Until(p.ends) > 0
			}
		}
		return entry{}, false
	}
	return entry{}, false
}

// Watch forwards the wake-ups of the store, except those of owners that were granted their claims.
func (h *pushing) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	in, out := driver.Watch(ctx, h.Store, id), make(chan driver.Wake, 1)
	h.mu.Lock()
	h.watches[id] = append(h.watches[id], out)
	h.mu.Unlock()
	go func() {
		for {
			select {
			case <-ctx.Done():
				h.mu.Lock()
				delete(h.watches, id)
				h.mu.Unlock()
				return
			case news := <-in:
				h.mu.Lock()
				if _, waits := h.entries[id]; waits || id.Owner == "" {
					wake(out, news)
				}
				h.mu.Unlock()
			}
		}
	}()
	return out
}
