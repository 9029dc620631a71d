package drivertest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// bent is store/mem with some of its verbs replaced. A verb that is nil is as it was.
type bent struct {
	mem *mem.Store

	features func(driver.Features) driver.Features
	acquire  func(ctx context.Context, r driver.Request) (driver.Result, error)
	renew    func(ctx context.Context, r driver.Renewal) (int, error)
	renewAll func(ctx context.Context, rs []driver.Renewal) []driver.Renewed
	release  func(ctx context.Context, id driver.ID) error
	watch    func(ctx context.Context, id driver.ID) <-chan driver.Wake
	show     func(ctx context.Context, key string) ([]driver.Claim, error)
	list     func(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error]
	breaks   func(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error)
	restart  func() driver.Store
	second   func() driver.Store

	leftovers int // the result of Env.Leftovers

	step sync.Mutex // for a fault that makes one call out of several
	mu   sync.Mutex
	// requests has the last request of every owner, except attempts that leave a queue entry as it
	// is.
	requests map[driver.ID]driver.Request
	given    map[string]uint64 // the highest fence of each key
}

func newBent() *bent {
	return &bent{mem: mem.New(), requests: map[driver.ID]driver.Request{}, given: map[string]uint64{}}
}

func (b *bent) Features() driver.Features {
	if b.features != nil {
		return b.features(b.mem.Features())
	}
	return b.mem.Features()
}

func (b *bent) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	b.note(r)
	acquire := b.mem.Acquire
	if b.acquire != nil {
		acquire = b.acquire
	}
	res, err := acquire(ctx, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given[r.Key] = max(b.given[r.Key], res.Fence)
	return res, err
}

// note remembers the request.
func (b *bent) note(r driver.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.QueueTTL == 0 && b.requests[r.ID].QueueTTL > 0 {
		if c, _ := b.on(r.ID); c.Waiting {
			return
		}
	}
	b.requests[r.ID] = r
}

func (b *bent) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	if b.renew != nil {
		return b.renew(ctx, r)
	}
	return b.mem.Renew(ctx, r)
}

func (b *bent) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	if b.renewAll != nil {
		return b.renewAll(ctx, rs)
	}
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = b.Renew(ctx, r)
	}
	return out
}

func (b *bent) Release(ctx context.Context, id driver.ID) error {
	if b.release != nil {
		return b.release(ctx, id)
	}
	return b.mem.Release(ctx, id)
}

func (b *bent) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if b.watch != nil {
		return b.watch(ctx, id)
	}
	return b.mem.Watch(ctx, id)
}

func (b *bent) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if b.show != nil {
		return b.show(ctx, key)
	}
	return b.mem.Show(ctx, key)
}

func (b *bent) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	if b.list != nil {
		return b.list(ctx, prefix)
	}
	return b.mem.List(ctx, prefix)
}

func (b *bent) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	if b.breaks != nil {
		return b.breaks(ctx, key, upTo, reason)
	}
	return b.mem.Break(ctx, key, upTo, reason)
}

// on returns the claim or entry of id, if there is one.
func (b *bent) on(id driver.ID) (driver.Claim, bool) {
	cs, _ := b.mem.Show(context.Background(), id.Key)
	for _, c := range cs {
		if c.Owner == driver.Tag(id.Owner) {
			return c, true
		}
	}
	return driver.Claim{}, false
}

// highest returns the last fence of a key.
func (b *bent) highest(key string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given[key]
}

// held returns the claims on a key, without the queue.
func (b *bent) held(key string) []driver.Claim {
	cs, _ := b.mem.Show(context.Background(), key)
	return slices.DeleteFunc(cs, func(c driver.Claim) bool { return c.Waiting })
}

// queue returns the requests of the waiters on a key.
func (b *bent) queue(key string) (rs []driver.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cs, _ := b.mem.Show(context.Background(), key)
	for _, c := range cs {
		for id, r := range b.requests {
			if c.Waiting && id.Key == key && driver.Tag(id.Owner) == c.Owner {
				r.QueueTTL = c.Left
				rs = append(rs, r)
			}
		}
	}
	return rs
}

// unqueued acquires r as if there were no queue, and puts the queue back behind it.
func (b *bent) unqueued(ctx context.Context, r driver.Request) (driver.Result, error) {
	waiters := slices.DeleteFunc(b.queue(r.Key), func(w driver.Request) bool { return w.ID == r.ID })
	for _, w := range waiters {
		_ = b.mem.Release(ctx, w.ID)
	}
	res, err := b.mem.Acquire(ctx, r)
	for _, w := range waiters {
		_, _ = b.mem.Acquire(ctx, w)
	}
	return res, err
}

// fewer is the number of keys, and of claims and queue entries on one key, in these tests: every
// rule is checked on many stores.
const fewer = 600

// bentEnv opens stores that are bent.
func bentEnv(bend func(b *bent)) Env {
	return Env{
		Virtual: true,
		Many:    fewer,
		Open: func(testing.TB) driver.Store {
			time.Sleep(time.Minute) // so that no clock is at 0
			b := newBent()
			if bend != nil {
				bend(b)
			}
			return b
		},
		Restart: func(_ testing.TB, s driver.Store) driver.Store {
			if r := s.(*bent).restart; r != nil {
				return r()
			}
			return s
		},
		Second: func(_ testing.TB, s driver.Store) driver.Store {
			if b, ok := s.(*bent); ok && b.second != nil {
				return b.second()
			}
			return s
		},
		Leftovers: func(_ testing.TB, s driver.Store) int { return s.(*bent).leftovers },
	}
}
