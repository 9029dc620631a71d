package distlock

import (
	"context"
	"sync/atomic"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

// A Semaphore lets up to n hold a name at a time, across all processes. Its leases are like those
// of [Locker.Lock]: renewed in the background, with their loss reported in time. The slots of a
// holder that dies are free after its TTL. The names of semaphores are apart from those of locks.
//
// The size belongs to the caller and is not kept in the store: each grant obeys the size of its own
// call. Give all processes the same size. While the sizes differ, there are never more holders than
// the largest size.
type Semaphore struct {
	l    *Locker
	size *atomic.Int64
	opts []Option
}

// Semaphore returns a semaphore of n slots for each name. The options are the defaults of its
// calls. The error is [errors.ErrUnsupported] if the store cannot count.
func (l *Locker) Semaphore(n int64, opts ...Option) (*Semaphore, error) {
	opts, err := l.kindOptions(names.Semaphore, opts)
	if err != nil {
		return nil, err
	}
	if !l.features.Count {
		return nil, unsupported(l.features, "does not count, as Semaphore needs")
	}
	s := &Semaphore{l: l, size: new(atomic.Int64), opts: opts}
	if err := s.Resize(n); err != nil {
		return nil, err
	}
	return s, nil
}

// Size returns how many slots there are.
func (s *Semaphore) Size() int64 { return s.size.Load() }

// Resize changes how many slots there are, for later calls of this process and for those that wait.
// Holders keep their slots: a semaphore that was made smaller grants nothing until enough slots
// were released. A call that waits for more slots than there are now fails with [ErrInvalid].
//
// In the queue of the store nobody overtakes: a call of another process that waits with the old
// size comes first.
func (s *Semaphore) Resize(n int64) error {
	if n < 1 || n >= driver.Whole {
		return invalid("size", "%d slots are not 1 to %d", n, driver.Whole-1)
	}
	s.l.queue.Resize(s.size, n)
	return nil
}

// Acquire acquires a slot of a name, or as many as [Weight] says, and waits until they are free:
// first come, first served where the store can queue, so that calls for few slots do not overtake a
// call for many. The context bounds the wait and nothing else. An error leaves nothing behind,
// unless it is [ErrUnknown].
func (s *Semaphore) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	r, err := s.l.request(ctx, names.Semaphore, name, ModeCounted, append(s.opts, opts...))
	if err != nil {
		return nil, outcome(false, err)
	}
	r.Weight, r.Limit, r.Size = max(1, r.opt.weight), s.Size(), s.size
	if err := r.Call.TooHeavy(); err != nil {
		return nil, outcome(false, err)
	}
	lease, err := s.l.acquire(ctx, r)
	return lease, outcome(false, err)
}

// TryAcquire acquires a slot of a name, or as many as [Weight] says, or returns [ErrHeld] at once.
func (s *Semaphore) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return s.Acquire(ctx, name, append(opts[:len(opts):len(opts)], noWait)...)
}
