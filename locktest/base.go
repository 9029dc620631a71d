package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/store/mem"
)

// rivalTTL is how long a Rival holds unless it releases: longer than any test takes, also in
// virtual time.
const rivalTTL = 100 * 365 * 24 * time.Hour

var (
	errFree = errors.New("nobody holds it")
	errHeld = errors.New("it is already held")
)

// A base is the store behind all links. It remembers the owners of all claims, which a store does
// not reveal, so that a test can end the claims of others.
type base struct {
	*mem.Store

	mu       sync.Mutex // held during every Acquire and Release, so that seize is one step
	requests map[mark]driver.Request
}

// A mark is the part of an ID that a store shows.
type mark struct{ key, tag string }

func markOf(id driver.ID) mark { return mark{id.Key, driver.Tag(id.Owner)} }

func newBase() *base { return &base{Store: mem.New(), requests: map[mark]driver.Request{}} }

// Features returns the features of the memory store, with the name of this package.
func (b *base) Features() driver.Features {
	f := b.Store.Features()
	f.Name = "locktest"
	return f
}

// Acquire remembers the request.
func (b *base) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	res, err := b.Store.Acquire(ctx, r)
	if err == nil && (res.Granted || r.QueueTTL > 0) {
		b.requests[markOf(r.ID)] = r
	}
	return res, err
}

// Release forgets the request.
func (b *base) Release(ctx context.Context, id driver.ID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.Store.Release(ctx, id)
	if err == nil {
		delete(b.requests, markOf(id))
	}
	return err
}

// claims returns the claims on a key and its queue, in order.
func (b *base) claims(key string) (held, queue []driver.Claim) {
	all, err := b.Show(context.Background(), key)
	if err != nil {
		panic(err) // the memory store fails only with its ctx
	}
	at := slices.IndexFunc(all, func(c driver.Claim) bool { return c.Waiting })
	if at < 0 {
		at = len(all)
	}
	return all[:at], all[at:]
}

// names returns the names of the plain locks that are held.
func (b *base) names() (names []string) {
	for c, err := range b.List(context.Background(), "") {
		if err != nil {
			panic(err) // as above
		}
		if name, plain := nameOf(c.Key); plain && !c.Waiting && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// expire ends all claims on a key, and wakes the head of its queue.
func (b *base) expire(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	held, _ := b.claims(key)
	if len(held) == 0 {
		return errFree
	}
	b.drop(held)
	return nil
}

// seize grants a key to a new owner before all waiters. If free is true, the key must be free; if
// not, it must be held, and the holders lose it.
func (b *base) seize(key, holder string, free bool) (driver.ID, driver.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	held, queue := b.claims(key)
	switch {
	case free && len(held) > 0:
		return driver.ID{}, driver.Result{}, errHeld
	case !free && len(held) == 0:
		return driver.ID{}, driver.Result{}, errFree
	}
	// A store lets no owner overtake its queue, so seize removes the queue for a moment. It does so
	// before the claims end, so that no waiter is woken without need.
	waiting := b.drop(queue)
	b.drop(held)
	r := driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole,
		TTL: rivalTTL, Holder: holder,
	}
	res, err := b.Store.Acquire(context.Background(), r)
	if err != nil {
		return driver.ID{}, driver.Result{}, err
	}
	for _, w := range append([]driver.Request{r}, waiting...) {
		b.requests[markOf(w.ID)] = w
	}
	for _, w := range waiting {
		if _, err := b.Store.Acquire(context.Background(), w); err != nil {
			panic(err) // the same request was valid before
		}
	}
	return r.ID, res, nil
}

// drop ends claims and queue entries, and returns their requests.
func (b *base) drop(claims []driver.Claim) []driver.Request {
	rs := make([]driver.Request, len(claims))
	for i, c := range claims {
		m := mark{c.Key, c.Owner}
		rs[i] = b.requests[m]
		delete(b.requests, m)
		if err := b.Store.Release(context.Background(), rs[i].ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
			panic(err) // the memory store fails only with its ctx
		}
	}
	return rs
}

// keyOf returns the key of the plain lock of a name.
func keyOf(name string) string { return names.Lock.Key(name) }

// nameOf is the reverse of keyOf. It returns false for keys of other kinds of locks.
func nameOf(key string) (name string, plain bool) {
	k, name, ok := names.Split(key)
	return name, ok && k == names.Lock
}
