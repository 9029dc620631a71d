package distlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

// maxShares is how many claims a rate limit has in a store at most.
const maxShares = 1000

// ErrLimited says that a rate limit is used up for now. It is an [ErrHeld]. The error is a
// [*LimitError].
var ErrLimited error = &kindOf{"distlock: rate limit reached", ErrHeld}

// A LimitError says that a rate limit is used up, and when to try again. It is [ErrLimited].
type LimitError struct {
	Name   string
	Limit  int64
	Window time.Duration
	Retry  time.Duration // until a pass may be free; 0: not known
	Err    error         // a *HeldError, joined with the cause of a wait that ended
}

func (e *LimitError) Error() string {
	s := fmt.Sprintf("distlock: %s is over its limit of %d in %v", names.Quote(e.Name), e.Limit, e.Window)
	if e.Retry > 0 {
		s += fmt.Sprintf(", retry in %v", round(e.Retry))
	}
	return s
}

// Is makes a LimitError an ErrLimited.
func (e *LimitError) Is(target error) bool { return target == ErrLimited }

// Unwrap returns the reason.
func (e *LimitError) Unwrap() error { return e.Err }

// A Limiter is a rate limit: a name passes up to n times in any window of time, across all
// processes. A pass is a claim that nobody releases: it expires when its window has passed, so the
// window slides. The moment counts at which the store grants the claim.
//
// A limit above 1,000 is taken from the store in shares of n/1000, rounded up, and the process
// spends them without a call of the store. So a name never has more than 1,000 claims, and the
// limit is never exceeded. It may be reached early: by shares that other processes have taken and
// not yet spent, and by up to a share if n is not a multiple of it. Passes that a process has not
// spent when it ends are lost for up to two windows. [Exact] takes no shares.
//
// The options [Weight], [Exact], [MaxWait], [MaxAttempts], [Backoff], [Holder], [Value], [Meta] and
// [Observe] mean what they mean for locks. Options about how long a lease is kept have no effect.
type Limiter struct {
	l      *Locker
	n      int64
	window time.Duration
	share  int64 // what is taken from the store at a time; 1: exactly what is asked for
	opts   []Option

	mu    sync.Mutex
	pools map[string]*pool // by name, if share > 1
}

// Limiter returns a limiter of n passes in any window of time for each name. The options are the
// defaults of its calls. The error is [errors.ErrUnsupported] if the store cannot count, or cannot
// expire claims by itself.
func (l *Locker) Limiter(n int64, window time.Duration, opts ...Option) (*Limiter, error) {
	switch {
	case l.store == nil:
		return nil, errNoNew
	case !l.features.Count:
		return nil, unsupported(l.features, "does not count, as Limiter needs")
	case !l.features.Expiry:
		return nil, unsupported(l.features, "ends no claim by itself, as Limiter needs")
	case n < 1 || n >= driver.Whole:
		return nil, invalid("limit", "%d is not 1 to %d", n, driver.Whole-1)
	}
	m := &Limiter{l: l, n: n, window: window, share: (n + maxShares - 1) / maxShares, pools: map[string]*pool{}}
	if err := within("window", window, minTTL, maxTTL); err != nil {
		return nil, err
	}
	m.opts = opts[:len(opts):len(opts)]
	if _, err := l.kindOptions(names.RateLimit, append(m.opts, m.set)); err != nil {
		return nil, err
	}
	return m, nil
}

// set sets the options of a claim that is not renewed.
func (m *Limiter) set(o *options) error {
	o.ttl, o.fixed, o.maxHold, o.minHold, o.delay = m.window, true, 0, 0, 0
	if m.shared(o) {
		o.ttl = 2 * m.window // a share may be spent for a window, and the last pass counts for one more
	}
	return nil
}

// shared reports whether a call takes its passes from shares.
func (m *Limiter) shared(o *options) bool { return m.share > 1 && !o.exact }

// Allow takes a pass of a name, or as many as [Weight] says, or returns [ErrLimited] at once.
func (m *Limiter) Allow(ctx context.Context, name string, opts ...Option) error {
	return m.Wait(ctx, name, append(opts[:len(opts):len(opts)], MaxWait(0))...)
}

// Wait takes a pass of a name, or as many as [Weight] says, and waits until there are enough: first
// come, first served where the store can queue and the limit is at most 1,000, or [Exact]. The
// context and [MaxWait] bound the wait; if they end it, the error is [ErrLimited] too. Every error
// is [ErrNotAcquired]: the name may not pass.
func (m *Limiter) Wait(ctx context.Context, name string, opts ...Option) error {
	return outcome(false, m.wait(ctx, name, opts))
}

func (m *Limiter) wait(ctx context.Context, name string, opts []Option) error {
	r, err := m.l.request(ctx, names.RateLimit, name, ModeCounted, append(append(m.opts, opts...), m.set))
	if err != nil {
		return err
	}
	r.Weight, r.Limit = max(1, r.opt.weight), m.n
	if err := r.Call.TooHeavy(); err != nil {
		return err
	}
	if m.shared(&r.opt) {
		return m.spend(ctx, r)
	}
	lease, err := m.l.acquire(ctx, r)
	if err != nil {
		return m.limited(name, err)
	}
	return lease.q.Detach(ctx)
}

// limited returns the error of a refusal.
func (m *Limiter) limited(name string, err error) error {
	var held *HeldError
	if !errors.As(err, &held) {
		return err
	}
	return &LimitError{Name: name, Limit: m.n, Window: m.window, Retry: held.Retry, Err: err}
}
