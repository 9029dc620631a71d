package distlock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// Leases are the leases of several names. They end together: Unlock releases all, and if one is
// lost, [Leases.Err], [Leases.Done] and the contexts report it for all. Each lease has a fence of
// its own: a resource checks the fence of its name.
type Leases struct {
	all  []*Lease // in the order in which they were acquired
	done func() <-chan struct{}
}

// LockAll acquires the locks of several names, all or none, and waits for them as [Locker.Lock]
// does. It acquires them one after the other in the order of their bytes, whatever their order in
// names: so two calls of LockAll never deadlock with each other. A name that is given twice is
// acquired once. The context and [MaxWait] bound the whole call. LockAll holds the first locks
// while it waits for the others. If one of them is lost meanwhile, the call fails with [ErrLost].
//
// An error leaves nothing behind, unless it is [ErrUnknown]. It is always [ErrNotAcquired].
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...Option) (*Leases, error) {
	all, err := l.lockAll(ctx, names, opts)
	return all, outcome(false, err)
}

func (l *Locker) lockAll(ctx context.Context, names []string, opts []Option) (*Leases, error) {
	r, names, err := l.several(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	if wait := r.Wait; wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	s := newLeases(len(names))
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	locking := false
	defer func() {
		if locking { // an observer panicked
			_ = s.discard(ctx)
		}
	}()
	for _, name := range names {
		locking = true
		lease, err := l.Lock(waiting, name, opts...)
		locking = false
		if err != nil {
			return nil, s.undo(ctx, l, err)
		}
		s.all = append(s.all, lease)
		waiting = lease.Context(waiting) // a loss ends the wait for the next
	}
	if err := s.Err(); err != nil {
		return nil, s.undo(ctx, l, err)
	}
	return s, nil
}

// TryLockAll acquires the locks of several names, all or none, or returns [ErrHeld] at once if one
// of them is held.
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...Option) (*Leases, error) {
	return l.LockAll(ctx, names, append(opts[:len(opts):len(opts)], noWait)...)
}

// several checks all names and options before the first lock is acquired, and returns the names in
// order.
func (l *Locker) several(ctx context.Context, all []string, opts []Option) (*request, []string, error) {
	if len(all) == 0 {
		return nil, nil, invalid("names", "there are none")
	}
	var last *request
	for _, name := range all {
		r, err := l.request(ctx, names.Lock, name, ModeExclusive, opts)
		if err != nil {
			return nil, nil, err
		}
		r.Weight, r.Limit = driver.Whole, driver.Whole
		if err := l.upgrades(ctx, r); err != nil {
			return nil, nil, err
		}
		if err := l.reenters(ctx, r); err != nil {
			return nil, nil, err
		}
		last = r
	}
	return last, slices.Compact(slices.Sorted(slices.Values(all))), nil
}

func newLeases(n int) *Leases {
	s := &Leases{all: make([]*Lease, 0, n)}
	s.done = sync.OnceValue(s.watch)
	return s
}

// setGrace is how long LockAll waits, after the end of its ctx, for the release of the locks that
// it acquired before another lock of the set was refused.
const setGrace = 5 * time.Millisecond

// undo releases the locks that were acquired before one was refused, and returns why that was.
func (s *Leases) undo(ctx context.Context, l *Locker, why error) error {
	if len(s.all) == 0 {
		return why
	}
	exit := l.queue.Enter()
	if exit == nil {
		return why
	}
	defer exit()
	err := l.queue.Behind(ctx, func() time.Duration { return setGrace }, func() error { return s.discard(ctx) })
	if err == queue.ErrNoAnswer { //nolint:errorlint // this very one: those of leases are wrapped
		err = &OpError{Op: "release", Kind: KindLock, Name: s.all[0].r.name, Unknown: true, Err: err}
	}
	if err != nil {
		why = errors.Join(why, err)
	}
	return why
}

// discard releases leases that their caller never got, within the time that ReleaseAll takes.
func (s *Leases) discard(ctx context.Context) error {
	var errs []error
	late := time.Now().Add(2 * queue.CallLimit)
	for _, lease := range slices.Backward(s.all) {
		end := lease.q.Discard
		if time.Now().After(late) {
			end = lease.q.Abandon
		}
		// A loss ended the wait, or came after it: no work was done under the lease.
		if err := end(ctx); err != nil && !errors.Is(err, ErrLost) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// All yields the leases in the order of their names.
func (s *Leases) All() iter.Seq[*Lease] { return slices.Values(s.all) }

// Lease returns the lease of a name, or nil if the name is none of them.
func (s *Leases) Lease(name string) *Lease {
	for _, lease := range s.all {
		if lease.Name() == name {
			return lease
		}
	}
	return nil
}

// Err returns nil while all leases are held, and then why the first of them ended.
func (s *Leases) Err() error {
	for _, lease := range s.all {
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Valid reports whether all leases are held and will be for d from now: see [Lease.Valid].
func (s *Leases) Valid(d time.Duration) bool {
	return !slices.ContainsFunc(s.all, func(l *Lease) bool { return !l.Valid(d) })
}

// Ensure makes sure that all leases are held for d from now: see [Lease.Ensure].
func (s *Leases) Ensure(ctx context.Context, d time.Duration) error {
	for _, lease := range s.all {
		if err := lease.Ensure(ctx, d); err != nil {
			return err
		}
	}
	// Those that were ensured first have had to wait for the others.
	if !s.Valid(d) {
		return cmp.Or(s.Err(), error(&OpError{Op: "renew", Kind: KindLock, Name: s.all[0].r.name, Err: queue.ErrTooLate}))
	}
	return nil
}

// Done returns a channel that is closed when one of the leases is over, lost or released.
func (s *Leases) Done() <-chan struct{} { return s.done() }

func (s *Leases) watch() <-chan struct{} { return s.Context(context.Background()).Done() }

// Context returns a context for the work under all locks: it ends with parent, and as soon as one
// of the leases does. See [Lease.Context].
func (s *Leases) Context(parent context.Context) context.Context {
	for _, lease := range s.all {
		parent = lease.Context(parent)
	}
	return parent
}

// Unlock gives all locks back, in the reverse of the order in which they were taken. It returns nil
// if all were held until now, and otherwise what [Lease.Unlock] returns of those that were not. It
// may be called again.
func (s *Leases) Unlock(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	var errs []error
	for _, lease := range slices.Backward(s.all) {
		errs = append(errs, lease.Unlock(ctx))
	}
	return errors.Join(errs...)
}
