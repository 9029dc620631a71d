package distlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// callLimit bounds every single call to a store but for lists, so that a store that never answers cannot hold up
// more than that. The trust that an answer would bring bounds it too.
const callLimit = 5 * time.Second

// A Locker takes locks in one store. A process needs one for each store it uses: calls for the same
// name share one place in the store's line and pass the lock on among each other. All its methods
// may be called by many goroutines at once.
type Locker struct {
	store    driver.Store
	features driver.Features
	defaults options
	clock    *keeper.Clock
	keeper   *keeper.Keeper
	self     string // what Check locks

	limits  atomic.Pointer[sharedLimit]
	closing chan struct{}   // closed when Close begins
	running context.Context // ends with Close; what the lines ask the store with
	stop    context.CancelFunc
	wg      sync.WaitGroup // the runners of lines
	ear     sync.WaitGroup // what listens for losses

	mu     sync.Mutex // guards all below, and every line, turn and lease. It is never held over a call
	lines  map[string]*line
	seq    uint64 // numbers the calls in order of arrival
	crowds crowds
	closed bool
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
	l := &Locker{store: store, features: f, defaults: defaults, clock: keeper.NewClock(), self: newOwner(), closing: make(chan struct{}), lines: map[string]*line{}, crowds: crowds{}}
	l.keeper = keeper.New(l.clock, func(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
		return driver.RenewAll(ctx, store, rs)
	})
	l.running, l.stop = context.WithCancel(context.Background())
	if losses := driver.Losses(l.running, store); losses != nil {
		l.ear.Go(func() { l.listen(losses) })
	}
	return l, nil
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
	lease, err := l.get(ctx, r)
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
	lease, err := l.get(ctx, r)
	if errors.Is(err, ErrHeld) {
		return nil // another check of this Locker has just written to the store
	}
	if err != nil {
		return nameless(err)
	}
	leave := l.enter()
	if leave == nil {
		return ErrClosed
	}
	defer leave()
	err = l.aside(ctx, l.graceOf(r), func() error { return lease.Unlock(ctx) })
	if err == errNoAnswer { //nolint:errorlint // this very one: that of the lease is wrapped
		err = lease.unanswered()
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
	l.mu.Lock()
	var leases []*Lease
	for _, n := range l.lines {
		for _, t := range n.turns {
			if t.lease != nil {
				leases = append(leases, t.lease)
			}
		}
	}
	l.mu.Unlock()

	errs := make([]error, len(leases))
	late := time.Now().Add(2 * callLimit)
	var wg sync.WaitGroup
	for w := range min(16, len(leases)) { // a store's connections are few
		wg.Go(func() {
			for i := w; i < len(leases); i += 16 {
				if time.Now().After(late) {
					errs[i] = leases[i].abandon(ctx)
					continue
				}
				errs[i] = leases[i].Unlock(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// listen ends leases whose claims the store says are gone.
func (l *Locker) listen(losses <-chan []driver.ID) {
	for {
		select {
		case <-l.running.Done():
			return
		case ids := <-losses:
			for _, t := range l.turnsOf(ids) {
				t.hold.Gone()
			}
		}
	}
}

// turnsOf returns the turns of some claims.
func (l *Locker) turnsOf(ids []driver.ID) (turns []*turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if n := l.lines[id.Key]; n != nil {
			for _, t := range n.turns {
				if t.id == id {
					turns = append(turns, t)
				}
			}
		}
	}
	return turns
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
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	for _, n := range l.lines {
		n.dissolve(ErrClosed)
		n.shake()
	}
	l.mu.Unlock()
	if !first {
		return nil
	}
	close(l.closing)
	err := l.ReleaseAll(ctx)
	l.wg.Wait() // the runners give their places up
	l.stop()
	l.ear.Wait()
	l.keeper.Close()
	return err
}

var (
	errNilContext = fmt.Errorf("%w: the context is nil", ErrInvalid)
	errNilFunc    = fmt.Errorf("%w: the function is nil", ErrInvalid)
	errNoNew      = fmt.Errorf("%w: a Locker is made by New", ErrInvalid)
)
