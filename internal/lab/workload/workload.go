// Package workload provides clients that contend for keys through Lockers, and records their
// operations. The caller produces the faults of the links and the store, and checks the record.
// Only tests use it. Each lease has a fencing token, which the package calls a fence.
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

// A Load is the shared state of the clients of one run. All fields up to Wait are set before the
// first client runs.
type Load struct {
	Recorder *history.Recorder
	TTL      time.Duration           // of the clients' Lockers
	Key      func(*rand.Rand) string // chooses the key to contend for

	Pause time.Duration // the longest pause between two holds
	Work  time.Duration // the longest duration of most holds
	Long  int           // one hold in so many may last for two TTLs: it needs renewals
	Wait  time.Duration // how long an acquire waits; one in five waits for a TTL at most

	// Guard changes the resource that an exclusive lease protects, and records the change. Nil: a
	// register in the memory of this process.
	Guard func(h *history.Hold, lease *distlock.Lease, rng *rand.Rand)

	Grants, Losses atomic.Int64

	mu        sync.Mutex
	registers map[string]*history.Register
}

// register returns the register that the clients write to under the lock of a key.
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

// A Client acquires locks and writes under them.
type Client struct {
	*Load
	Name    string // the name of its process in the history
	Locker  *distlock.Locker
	Slots   *distlock.Semaphore // used instead of locks; nil: locks
	Rand    *rand.Rand
	Careful bool          // it acquires only exclusive locks, and does not hold for long
	Most    int           // it stops after so many acquires; 0: no limit
	Holding *atomic.Int64 // the number of leases that the process holds; nil: not counted
}

// Run acquires locks until ctx ends.
func (c *Client) Run(ctx context.Context) {
	for n := 0; ctx.Err() == nil && (c.Most == 0 || n < c.Most); n++ {
		c.hold(ctx)
		time.Sleep(c.about(c.Pause))
	}
}

// hold acquires a lock with a random method, works under it and releases it.
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

	began := time.Now()
	h := c.Recorder.Acquire(want)
	s := &Scribe{Hold: h}
	lease, err := take(waiting, want.Key, distlock.Observe(s.Observe))
	if err != nil {
		Ended(waiting, h, err)
		return
	}
	h.Granted(lease.Fence(), Trust(lease, began))
	s.Follow(lease)
	c.Grants.Add(1)
	if c.Holding != nil {
		c.Holding.Add(1)
	}
	c.work(h, lease, want.Weight == driver.Whole)
}

// slots returns the function that acquires some slots.
func (c *Client) slots(weight int64, try bool) func(context.Context, string, ...distlock.Option) (*distlock.Lease, error) {
	take := c.Slots.Acquire
	if try {
		take = c.Slots.TryAcquire
	}
	return func(ctx context.Context, name string, opts ...distlock.Option) (*distlock.Lease, error) {
		return take(ctx, name, append(opts, distlock.Weight(weight))...)
	}
}

// work works under a lease for a while, or until it is lost, and releases it.
func (c *Client) work(h *history.Hold, lease *distlock.Lease, alone bool) {
	d := c.about(c.Work)
	if !c.Careful && c.Rand.IntN(c.Long) == 0 {
		d = c.upTo(2 * c.TTL)
	}
	switch {
	case !alone || lease.Err() != nil:
	case c.Guard != nil:
		stop := watchLoss(h, lease) // the guarded resource may block the client
		c.Guard(h, lease, c.Rand)
		stop()
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

// watchLoss records the loss of a lease while the client does something else, until the returned
// function is called.
func watchLoss(h *history.Hold, lease *distlock.Lease) func() {
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

// about is upTo in whole milliseconds: in virtual time many events then share one instant, and
// races show.
func (c *Client) about(d time.Duration) time.Duration {
	return c.upTo(d).Truncate(time.Millisecond)
}

// Trust returns when the trust in a lease ends. The acquire of the lease began at began. A lease
// that is already lost no longer has an end of trust. Then Trust returns began, since the holder
// never trusted the lease, and a later time could be after a rival's grant.
func Trust(lease *distlock.Lease, began time.Time) time.Time {
	if until := Until(lease); !until.IsZero() {
		return until
	}
	return began
}

// Until returns lease.Until in a process that may be stopped during the call. Then the time and the
// lease were read at different moments and do not match, and Until reads both again.
func Until(lease *distlock.Lease) time.Time {
	for {
		began := time.Now()
		until := lease.Until()
		if time.Since(began) < 5*time.Millisecond {
			return until
		}
	}
}

// A Scribe records when an acquire begins to wait, and the renewals of its lease.
type Scribe struct {
	Hold  *history.Hold
	lease atomic.Pointer[distlock.Lease]
}

// Follow passes the lease to the scribe, after its grant was recorded.
func (s *Scribe) Follow(lease *distlock.Lease) { s.lease.Store(lease) }

// Observe is for [distlock.Observe].
func (s *Scribe) Observe(_ context.Context, e distlock.Event) {
	switch {
	case e.Type == distlock.EventWaiting:
		s.Hold.Waiting()
	case e.Type == distlock.EventRenewed && e.Err == nil:
		// A lease that is already lost has no end of trust to record. It had one before, which must
		// not become later.
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

// Outcome returns the outcome that a Locker's error means.
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
