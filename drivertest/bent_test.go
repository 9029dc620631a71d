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
	breaks   func(ctx context.Context, key, reason string) ([]driver.Claim, error)
	restart  func() driver.Store

	leftovers int // that Env.Leftovers tells

	step  sync.Mutex // for those that make one call out of several
	mu    sync.Mutex
	asked map[driver.ID]driver.Request // all that was ever asked for, but for attempts that leave a queue entry as it is
	given map[string]uint64            // the highest fence of each key
}

func newBent() *bent {
	return &bent{mem: mem.New(), asked: map[driver.ID]driver.Request{}, given: map[string]uint64{}}
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

// note remembers what was asked for.
func (b *bent) note(r driver.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.QueueTTL == 0 && b.asked[r.ID].QueueTTL > 0 {
		if c, _ := b.on(r.ID); c.Waiting {
			return
		}
	}
	b.asked[r.ID] = r
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

func (b *bent) Break(ctx context.Context, key, reason string) ([]driver.Claim, error) {
	if b.breaks != nil {
		return b.breaks(ctx, key, reason)
	}
	return b.mem.Break(ctx, key, reason)
}

// on tells what id has, if anything.
func (b *bent) on(id driver.ID) (driver.Claim, bool) {
	cs, _ := b.mem.Show(context.Background(), id.Key)
	for _, c := range cs {
		if c.Owner == driver.Tag(id.Owner) {
			return c, true
		}
	}
	return driver.Claim{}, false
}

// highest is the last fence of a key.
func (b *bent) highest(key string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given[key]
}

// held tells the claims on a key, without the line.
func (b *bent) held(key string) []driver.Claim {
	cs, _ := b.mem.Show(context.Background(), key)
	return slices.DeleteFunc(cs, func(c driver.Claim) bool { return c.Waiting })
}

// line returns the requests of those in line on a key.
func (b *bent) line(key string) (rs []driver.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cs, _ := b.mem.Show(context.Background(), key)
	for _, c := range cs {
		for id, r := range b.asked {
			if c.Waiting && id.Key == key && driver.Tag(id.Owner) == c.Owner {
				r.QueueTTL = c.Left
				rs = append(rs, r)
			}
		}
	}
	return rs
}

// unlined acquires r as if there were no line, and puts the line back behind it.
func (b *bent) unlined(ctx context.Context, r driver.Request) (driver.Result, error) {
	line := slices.DeleteFunc(b.line(r.Key), func(w driver.Request) bool { return w.ID == r.ID })
	for _, w := range line {
		_ = b.mem.Release(ctx, w.ID)
	}
	res, err := b.mem.Acquire(ctx, r)
	for _, w := range line {
		_, _ = b.mem.Acquire(ctx, w)
	}
	return res, err
}

// fewer is how many claims and queue entries are on one key here, and keys: every law is asked for
// on many stores.
const fewer = 600

// env opens stores that are bent.
func bentEnv(bend func(b *bent)) Env {
	return Env{
		Virtual: true,
		Many:    fewer,
		Open: func(testing.TB) driver.Store {
			time.Sleep(time.Minute) // so that no clock stands at 0
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
		Leftovers: func(_ testing.TB, s driver.Store) int { return s.(*bent).leftovers },
	}
}
