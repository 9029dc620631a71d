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
	"github.com/distlock/distlock/internal/lab/history"
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
	Most    int           // it stops after so many asks; 0: it does not
	Holding *atomic.Int64 // how many leases the process holds; nil: not of interest
}

// Run takes locks until ctx ends.
func (c *Client) Run(ctx context.Context) {
	for n := 0; ctx.Err() == nil && (c.Most == 0 || n < c.Most); n++ {
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

	asked := time.Now()
	h := c.Recorder.Acquire(want)
	s := &Scribe{Hold: h}
	lease, err := take(waiting, want.Key, distlock.Observe(s.Observe))
	if err != nil {
		Ended(waiting, h, err)
		return
	}
	h.Granted(lease.Fence(), Trust(lease, asked))
	s.Follow(lease)
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
		rest := tell(h, lease) // what is guarded may keep the client waiting
		c.Guard(h, lease, c.Rand)
		rest()
	default:
		h.Update(c.register(lease.Name()), nil)
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

// tell takes down the loss of a lease while the client does something else, until the function it returns is called.
func tell(h *history.Hold, lease *distlock.Lease) func() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-lease.Done():
			h.Lost()
		case <-stop:
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

func (c *Client) upTo(d time.Duration) time.Duration { return time.Duration(c.Rand.Int64N(int64(d))) }

// about is upTo in whole milliseconds: in virtual time many things then happen at one instant, and races show.
func (c *Client) about(d time.Duration) time.Duration {
	return c.upTo(d).Truncate(time.Millisecond)
}

// Trust is when the trust in a lease ends that was asked for at a time. One that is lost by now does not tell any more: then it is
// that time, since the holder never trusted it, and a later one could be after a rival's grant.
func Trust(lease *distlock.Lease, asked time.Time) time.Time {
	if until := Until(lease); !until.IsZero() {
		return until
	}
	return asked
}

// Until is lease.Until of a process that may be stopped in the middle of the look: then what was read of the clock and what was
// read of the lease do not go together, and it looks again.
func Until(lease *distlock.Lease) time.Time {
	for {
		began := time.Now()
		until := lease.Until()
		if time.Since(began) < 5*time.Millisecond {
			return until
		}
	}
}

// A Scribe takes down when an ask begins to wait, and the renewals of its lease.
type Scribe struct {
	Hold  *history.Hold
	lease atomic.Pointer[distlock.Lease]
}

// Follow tells the scribe the lease, when its grant was taken down.
func (s *Scribe) Follow(lease *distlock.Lease) { s.lease.Store(lease) }

// Observe is for distlock.Observe.
func (s *Scribe) Observe(_ context.Context, e distlock.Event) {
	switch {
	case e.Type == distlock.EventWaiting:
		s.Hold.Waiting()
	case e.Type == distlock.EventRenewed && e.Err == nil:
		// A lease that is lost by now has no end of trust to take down, and had one before: it must not become later.
		if lease := s.lease.Load(); lease != nil {
			if until := Until(lease); !until.IsZero() {
				s.Hold.Renew().Extended(until)
			}
		}
	}
}

// Ended records the return of an acquire without a lease, and whether its caller gave up.
func Ended(ctx context.Context, h *history.Hold, err error) {
	if ctx.Err() != nil {
		h.GiveUp()
	}
	h.Ended(Outcome(err))
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
