package redis_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/history"
)

// A load is clients that contend for keys, and the record of what they did.
type load struct {
	rec *history.Recorder
	ttl time.Duration
	key func(*rand.Rand) string // what is contended for just now

	mu   sync.Mutex
	regs map[string]*history.Register

	grants, losses atomic.Int64
}

func newLoad(ttl time.Duration, key func(*rand.Rand) string) *load {
	return &load{rec: history.New(), ttl: ttl, key: key, regs: map[string]*history.Register{}}
}

func (d *load) register(key string) *history.Register {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.regs[key]
	if r == nil {
		r = &history.Register{Name: key}
		d.regs[key] = r
	}
	return r
}

// until waits until there were so many grants.
func (d *load) until(t testing.TB, n int) {
	t.Helper()
	for began := time.Now(); d.grants.Load() < int64(n); time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*soon {
			t.Fatalf("%d grants, and not %d, after %v", d.grants.Load(), n, 2*soon)
		}
	}
}

// A client takes locks and writes under them.
type client struct {
	*load
	name    string
	l       *distlock.Locker
	rng     *rand.Rand
	careful bool // it takes nothing but exclusive locks, and does not hold for long
}

func (d *load) client(name string, l *distlock.Locker, seed uint64) *client {
	return &client{load: d, name: name, l: l, rng: rand.New(rand.NewPCG(seed, 5))}
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.hold(ctx)
		time.Sleep(upTo(c.rng, 10*time.Millisecond))
	}
}

// hold takes one lock in one of the ways there are, works under it and gives it back.
func (c *client) hold(ctx context.Context) {
	want := history.Want{Client: c.name, Key: c.key(c.rng), TTL: c.ttl, Weight: driver.Whole, Limit: driver.Whole}
	take := c.l.Lock
	switch n := c.rng.IntN(10); {
	case c.careful:
	case n < 2:
		want.Weight, take = 1, c.l.RLock
	case n < 3:
		take = c.l.TryLock
	}
	wait := time.Minute
	if c.rng.IntN(5) == 0 {
		wait = upTo(c.rng, c.ttl)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	h := c.rec.Ask(want)
	o := &observer{load: c.load, h: h}
	lease, err := take(waiting, want.Key, distlock.Observe(o.observe))
	if err != nil {
		h.Ended(outcome(err))
		return
	}
	h.Granted(lease.Fence(), lease.Until())
	o.lease.Store(lease)
	c.grants.Add(1)
	c.work(h, lease, want.Weight == driver.Whole)
}

// work works under a lease for a while, or until it is lost, and gives it back.
func (c *client) work(h *history.Hold, lease *distlock.Lease, alone bool) {
	d := upTo(c.rng, 6*time.Millisecond)
	if !c.careful && c.rng.IntN(30) == 0 {
		d = upTo(c.rng, 2*c.ttl) // long enough to need renewals
	}
	if alone && lease.Err() == nil {
		h.Update(c.register(lease.Key()), nil)
	}
	select {
	case <-lease.Done():
		h.Lost()
		c.losses.Add(1)
	case <-time.After(d):
		if lease.Err() == nil {
			h.Trusted()
		}
	}
	release := h.Release()
	release.End(outcome(lease.Unlock(context.Background())))
}

// An observer takes down the renewals of one lease.
type observer struct {
	*load
	h     *history.Hold
	lease atomic.Pointer[distlock.Lease]
}

func (o *observer) observe(_ context.Context, e distlock.Event) {
	switch {
	case e.Kind == distlock.Waiting:
		o.h.Waiting()
	case e.Kind == distlock.Renewed && e.Err == nil:
		if lease := o.lease.Load(); lease != nil && lease.Err() == nil {
			o.h.Renew().Extended(lease.Until())
		}
	}
}

// outcome sorts the answers of a locker.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Done
	case errors.Is(err, distlock.ErrUnknown):
		return history.Unknown
	case errors.Is(err, distlock.ErrLost):
		return history.NotHeld
	case errors.Is(err, distlock.ErrHeld):
		return history.Refused
	case errors.Is(err, distlock.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return history.Failed
	}
	return history.Untyped
}
