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
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// A Locker acquires locks in one store. A process needs one Locker for each store: its calls for
// the same name share one entry in the queue of the store, and hand the lock off among each other.
// All methods may be called by many goroutines at once.
type Locker struct {
	store    driver.Store
	features driver.Features
	defaults options
	queue    *queue.Manager
	clock    *keeper.Clock // of the queue
	self     string        // the name that Ping locks
}

// New returns a [Locker] on a store. The options are the defaults of its calls. The caller closes
// the store, after the Locker.
func New(store driver.Store, opts ...Option) (*Locker, error) {
	// A nil pointer in an interface is the usual trace of an error that was ignored when the store
	// was made.
	if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, &ArgumentError{"store", "it is nil"}
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
	defaults.given = 0
	q := queue.New(store)
	return &Locker{store: store, features: f, defaults: defaults, queue: q, clock: q.Clock(), self: queue.NewOwner()}, nil
}

// String returns a text with the name of the store.
func (l *Locker) String() string { return "locker on " + l.features.Name }

// Format prints what String returns, whatever the verb: a store may contain a password.
func (l *Locker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// self returns host and pid of this process.
func self() string {
	host, err := os.Hostname()
	if err != nil || names.TextFlaw(host, maxHolder-12) != "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Lock acquires the lock of a name, and waits while it is held: first come, first served where the
// store can queue. The context bounds the wait and nothing else; see [Lease.Context] for the work.
//
// An error leaves nothing behind, no queue entry and no lock, unless it is [ErrUnknown]. It is
// always [ErrNotAcquired], together with the reason. If ctx ended the wait for a held lock, the
// error is [ErrHeld] and the cause of ctx.
//
// Lock returns within 20 ms of the end of ctx, also if the store does not answer. Then it undoes
// its attempt in the background, and [Locker.Close] waits for that. If ctx does not end, the first
// attempt fails after 5 s, or after the TTL if that is shorter, and after up to 1 s more to undo
// it.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeExclusive, name, opts)
}

// TryLock acquires the lock of a name, or returns [ErrHeld] at once if it is held. On a store that
// does not answer it takes as long as the first attempt of [Locker.Lock].
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, ModeExclusive, name, append(opts[:len(opts):len(opts)], noWait))
}

// take acquires the plain lock of a name.
func (l *Locker) take(ctx context.Context, mode Mode, name string, opts []Option) (*Lease, error) {
	weight := driver.Whole
	if mode == ModeShared {
		weight = 1
	}
	r, err := l.request(ctx, names.Lock, name, mode, opts)
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
	if err != nil {
		return nil, outcome(false, err)
	}
	return lease, nil
}

// Ping acquires and releases a lock that nobody else uses. It returns nil if the store can be
// reached and written to: for readiness probes.
func (l *Locker) Ping(ctx context.Context) error {
	plain := func(o *options) error { // without the value and the like of users' locks
		*o = options{ttl: o.ttl, first: o.first, most: o.most, holder: o.holder}
		return nil
	}
	r, err := l.request(ctx, names.Check, l.self, ModeExclusive, []Option{plain})
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
	exit := l.queue.Enter()
	if exit == nil {
		return ErrClosed
	}
	defer exit()
	err = l.queue.Behind(ctx, l.queue.Grace(&r.Call), func() error { return lease.Unlock(ctx) })
	if err == queue.ErrNoAnswer { //nolint:errorlint // this very one: that of the lease is wrapped
		err = lease.q.Unanswered()
	}
	return nameless(err)
}

// nameless removes the name from an error of Ping, whose callers gave none.
func nameless(err error) error {
	var op *OpError
	if errors.As(err, &op) {
		op.Op, op.Kind, op.Name = "ping", KindAny, ""
	}
	return err
}

// ReleaseAll unlocks all leases of this Locker, and returns the errors of all. It ends the contexts
// of functions under [Locker.Do] and the like, and does not wait for the functions: another holder
// may come in while they still run, and Do returns [ErrReleased]. Calls that wait continue, and may
// get the lock meanwhile. Like [Lease.Unlock], ReleaseAll calls the store even if ctx has ended.
// After 10 s it gives up on a store that does not answer: the remaining leases have ended too,
// their locks stay held until their TTL has passed, and the error is [ErrUnknown].
func (l *Locker) ReleaseAll(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.store == nil {
		return errNoNew
	}
	return l.queue.ReleaseAll(ctx)
}

// Close ends all waits, and the contexts of functions under [Locker.Do], [Once.Do], [Cron.Run] and
// [Election.Run], with [ErrClosed]. It waits until these functions have returned, or until ctx
// ends: a function that does not look at its context can block Close for ever if ctx does not end.
//
// Then Close unlocks all leases as [Locker.ReleaseAll] does, and stops all renewals. It returns the
// errors of unlocking. Later calls for a lock fail with [ErrClosed]. A second Close waits for the
// first and returns nil, or the cause of ctx if that ends before.
func (l *Locker) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.store == nil {
		return errNoNew
	}
	return l.queue.Close(ctx, l.defaults.onClose...)
}

var (
	errNilContext error = &ArgumentError{"context", "it is nil"}
	errNilFunc    error = &ArgumentError{"function", "it is nil"}
	errNoNew      error = &ArgumentError{"locker", "it was not made by New"}
)
