// Package workload is clients that contend for keys through Lockers, and the record of what they did. What is
// wrong with the links and the store meanwhile is the caller's, and so is the judge. It is for tests alone.
package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/history"
)

// A Load is what the clients of one run have in common. All fields up to Wait are set before the
// first client runs.
type Load struct {
	Recorder *history.Recorder
	TTL      time.Duration           // of the clients' Lockers
	Key      func(*rand.Rand) string // what is contended for just now

	Pause time.Duration // the longest pause between two holds
	Work  time.Duration // the longest of most holds
	Long  int           // one hold in so many may last for two TTLs: it needs renewals
	Wait  time.Duration // how long an ask waits; one in five waits for a TTL at most

	// Guard changes what an exclusive lease protects, and takes it down. Nil: a register in the memory of this process.
	Guard func(h *history.Hold, lease *distlock.Lease, rng *rand.Rand)

	Grants, Losses atomic.Int64

	mu        sync.Mutex
	registers map[string]*history.Register
}

// register is what the clients write to under the lock of a key.
func (d *Load) register(key string) *history.Register {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.registers[key]
	if r == nil {
		r = &history.Register{Name: key}
		if d.registers == nil {
			d.registers = map[string]*history.Register{}
		}
		d.registers[key] = r
	}
	return r
}

// A Client takes locks and writes under them.
type Client struct {
	*Load
	Name    string // of its process, in the history
	Locker  *distlock.Locker
	Slots   *distlock.Semaphore // what it takes instead of locks; nil: locks
	Rand    *rand.Rand
	Careful bool          // it takes nothing but exclusive locks, and does not hold for long
	Holding *atomic.Int64 // how many leases the process holds; nil: not of interest
}

// Run takes locks until ctx ends.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		c.hold(ctx)
		time.Sleep(c.about(c.Pause))
	}
}

// hold takes one lock in one of the ways there are, works under it and gives it back.
func (c *Client) hold(ctx context.Context) {
	want := history.Want{Client: c.Name, Key: c.Key(c.Rand), TTL: c.TTL, Weight: driver.Whole, Limit: driver.Whole}
	take := c.Locker.Lock
	switch n := c.Rand.IntN(10); {
	case c.Slots != nil:
		want.Weight, want.Limit = 1+c.Rand.Int64N(c.Slots.Size()), c.Slots.Size()
		take = c.slots(want.Weight, n < 2)
	case c.Careful:
	case n < 2:
		want.Weight, take = 1, c.Locker.RLock
	case n < 3:
		take = c.Locker.TryLock
	}
	wait := c.Wait
	if c.Rand.IntN(5) == 0 {
		wait = c.upTo(c.TTL)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	h := c.Recorder.Ask(want)
	s := &scribe{hold: h}
	lease, err := take(waiting, want.Key, distlock.Observe(s.observe))
	if err != nil {
		h.Ended(Outcome(err))
		return
	}
	h.Granted(lease.Fence(), lease.Until())
	s.lease.Store(lease)
	c.Grants.Add(1)
	if c.Holding != nil {
		c.Holding.Add(1)
	}
	c.work(h, lease, want.Weight == driver.Whole)
}

// slots returns how to take some slots.
func (c *Client) slots(weight int64, try bool) func(context.Context, string, ...distlock.Option) (*distlock.Lease, error) {
	take := c.Slots.Acquire
	if try {
		take = c.Slots.TryAcquire
	}
	return func(ctx context.Context, name string, opts ...distlock.Option) (*distlock.Lease, error) {
		return take(ctx, name, append(opts, distlock.Weight(weight))...)
	}
}

// work works under a lease for a while, or until it is lost, and gives it back.
func (c *Client) work(h *history.Hold, lease *distlock.Lease, alone bool) {
	d := c.about(c.Work)
	if !c.Careful && c.Rand.IntN(c.Long) == 0 {
		d = c.upTo(2 * c.TTL)
	}
	switch {
	case !alone || lease.Err() != nil:
	case c.Guard != nil:
		c.Guard(h, lease, c.Rand)
	default:
		h.Update(c.register(lease.Key()), nil)
	}
	select {
	case <-lease.Done():
		h.Lost()
		c.Losses.Add(1)
	case <-time.After(d):
		if lease.Err() == nil {
			h.Trusted()
		}
	}
	if c.Holding != nil {
		c.Holding.Add(-1)
	}
	release := h.Release()
	release.End(Outcome(lease.Unlock(context.Background())))
}

func (c *Client) upTo(d time.Duration) time.Duration { return time.Duration(c.Rand.Int64N(int64(d))) }

// about is upTo in whole milliseconds: in virtual time many things then happen at one instant, and races show.
func (c *Client) about(d time.Duration) time.Duration {
	return c.upTo(d).Truncate(time.Millisecond)
}

// A scribe takes down the renewals of one lease.
type scribe struct {
	hold  *history.Hold
	lease atomic.Pointer[distlock.Lease]
}

func (s *scribe) observe(_ context.Context, e distlock.Event) {
	switch {
	case e.Kind == distlock.Waiting:
		s.hold.Waiting()
	case e.Kind == distlock.Renewed && e.Err == nil:
		if lease := s.lease.Load(); lease != nil && lease.Err() == nil {
			s.hold.Renew().Extended(lease.Until())
		}
	}
}

// Outcome sorts the answers of a Locker.
func Outcome(err error) history.Outcome {
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
