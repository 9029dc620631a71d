package distlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
	"github.com/distlock/distlock/internal/queue"
)

// A Locker takes locks in one store. A process needs one for each store it uses: calls for the same
// name share one place in the store's line and pass the lock on among each other. All its methods
// may be called by many goroutines at once.
type Locker struct {
	store    driver.Store
	features driver.Features
	defaults options
	queue    *queue.Manager
	clock    *keeper.Clock // of the queue
	self     string        // the name that Check locks
}

// New returns a Locker on a store. The options are the defaults of its calls. The store stays
// the caller's: Close does not close it.
func New(store driver.Store, opts ...Option) (*Locker, error) {
	// A nil pointer in an interface is the usual trace of an error that nobody looked at when the store was made.
	if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalid)
	}
	f := store.Features()
	defaults := options{
		ttl: max(defaultTTL, f.MinTTL), wait: -1, first: defaultFirst, most: defaultMost, holder: self(),
	}
	if f.MaxTTL > 0 {
		defaults.ttl = min(defaults.ttl, f.MaxTTL)
	}
	defaults, err := defaults.with(opts, f)
	if err != nil {
		return nil, err
	}
	q := queue.New(store)
	return &Locker{store: store, features: f, defaults: defaults, queue: q, clock: q.Clock(), self: queue.NewOwner()}, nil
}

// String names the locker's store.
func (l *Locker) String() string { return "locker on " + l.features.Name }

// Format shows the locker without what is in it: a store may know a password.
func (l *Locker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// self names this process: host and pid.
func self() string {
	host, err := os.Hostname()
	if err != nil || flaw(host, maxHolder-12) != "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Lock takes the lock of a name, and waits for it if it is held: first come, first
// served where the store can queue. The context bounds the wait and nothing else; see
// Lease.Context for the work.
//
// An error leaves nothing behind: no place in line and no lock, unless it is ErrUnknown. It is
// always ErrNotAcquired, together with the reason.
//
// Lock returns within 20 ms of the end of ctx, also if the store does not answer. What it has to
// undo is undone behind it then, and Close waits for that. A ctx that does not end bounds nothing:
// the first attempt then fails after 5 s, or after the TTL if that is shorter, and up to 1 s more
// to undo it.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeExclusive, name, opts)
}

// TryLock takes the lock of a name, or returns ErrHeld at once if it is held. On a store that does
// not answer it takes as long as the first attempt of Lock.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeExclusive, name, append(opts[:len(opts):len(opts)], MaxWait(0)))
}

// RLock takes the lock of a name together with other readers, and waits while it is held by
// Lock or another waits for that. Where the store can queue, readers do not overtake a writer.
func (l *Locker) RLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeShared, name, opts)
}

// TryRLock takes the lock of a name together with other readers, or returns ErrHeld at once.
func (l *Locker) TryRLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeShared, name, append(opts[:len(opts):len(opts)], MaxWait(0)))
}

// take takes the plain lock of a name.
func (l *Locker) take(ctx context.Context, mode Mode, name string, opts []Option) (*Lease, error) {
	weight := driver.Whole
	if mode == ModeShared {
		weight = 1
	}
	r, err := l.request(ctx, kindLock, name, mode, opts)
	if err != nil {
		return nil, outcome(false, err)
	}
	r.Weight, r.Limit = weight, driver.Whole
	if mode == ModeExclusive {
		if err := l.upgrades(ctx, r); err != nil {
			return nil, outcome(false, err)
		}
	}
	lease, err := l.acquire(ctx, r)
	return lease, outcome(false, err)
}

// Check takes and gives back a lock that nobody else uses. It returns nil if the store can be
// reached and written to: for readiness probes.
func (l *Locker) Check(ctx context.Context) error {
	plain := func(o *options) error { // it is nobody's lock, and leaves nothing behind
		*o = options{ttl: o.ttl, first: o.first, most: o.most, holder: o.holder}
		return nil
	}
	r, err := l.request(ctx, kindCheck, l.self, ModeExclusive, []Option{plain})
	if err != nil {
		return err
	}
	r.Weight, r.Limit = driver.Whole, driver.Whole
	lease, err := l.acquire(ctx, r)
	if errors.Is(err, ErrHeld) {
		return nil // another check of this Locker has just written to the store
	}
	if err != nil {
		return nameless(err)
	}
	leave := l.queue.Enter()
	if leave == nil {
		return ErrClosed
	}
	defer leave()
	err = l.queue.Behind(ctx, l.queue.Grace(&r.Call), func() error { return lease.Unlock(ctx) })
	if err == queue.ErrNoAnswer { //nolint:errorlint // this very one: that of the lease is wrapped
		err = lease.q.Unanswered()
	}
	return nameless(err)
}

// nameless takes the name out of an error where there was none that anybody gave.
func nameless(err error) error {
	var op *OpError
	if errors.As(err, &op) {
		op.Op, op.Name = "check", ""
	}
	return err
}

// ReleaseAll unlocks all leases of this Locker, and returns what went wrong with any of them.
// Calls that wait are not touched, and may be granted meanwhile. Like Unlock it goes out even if ctx is over. After 10 s it
// gives up on a store that does not answer: leases that were not reached by then are over too, their locks stay
// taken until the TTL is, and the error is ErrUnknown.
func (l *Locker) ReleaseAll(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.store == nil {
		return errNoNew
	}
	return l.queue.ReleaseAll(ctx)
}

// Close ends all waiting with ErrClosed, unlocks all leases as ReleaseAll does and ends all renewing. It returns
// what went wrong with unlocking. Calls that ask for a lock fail with ErrClosed from then on; a
// second Close does nothing, and does not wait for the first.
func (l *Locker) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.store == nil {
		return errNoNew
	}
	return l.queue.Close(ctx)
}

var (
	errNilContext = fmt.Errorf("%w: the context is nil", ErrInvalid)
	errNilFunc    = fmt.Errorf("%w: the function is nil", ErrInvalid)
	errNoNew      = fmt.Errorf("%w: a Locker is made by New", ErrInvalid)
)
