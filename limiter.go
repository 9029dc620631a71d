package distlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
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

// Is makes a LimitError an [ErrLimited].
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
// [Observe] mean what they mean for locks. Options about how long a lease is kept are refused.
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
	var err error
	if m.opts, err = l.kindOptions(names.RateLimit, opts); err != nil {
		return nil, err
	}
	_, err = l.defaults.with(append(m.opts, m.set), l.features)
	return m, err
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
	return m.Wait(ctx, name, append(opts[:len(opts):len(opts)], noWait)...)
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

// A pool has the passes of a name that a process has taken and not yet spent.
type pool struct {
	shares []share
	fill   *fill // under way; nil: none is
}

// A share is one claim.
type share struct {
	id    driver.ID
	left  int64
	until time.Duration // it is not spent after that: its claim would expire too early
}

// A fill is one call of the store for a share.
type fill struct {
	weight int64
	done   chan struct{}
	err    error // set when done is closed
}

// spend takes passes from the pool, and waits until it is filled.
func (m *Limiter) spend(ctx context.Context, r *request) error {
	if r.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	var refused *LimitError     // the last refusal; nil: there was none
	var began, at time.Duration // of the wait, and of the refusal
	for {
		filled, err := m.draw(ctx, r)
		waited := refused != nil
		if r.Wait != 0 && errors.As(err, &refused) {
			at = m.l.clock.Now()
			if !waited {
				began = m.l.clock.Awake()
				r.emit(ctx, Event{Type: EventWaiting})
			}
			waited = true
			if m.pause(ctx, max(refused.Retry, r.opt.first)+backoff.Jitter(r.opt.first)) {
				continue
			}
			err = context.Cause(ctx)
		}
		if waited && ctx.Err() != nil && err != nil { // between two attempts, or in one
			both := *refused // others read the refusal of the store
			both.Retry = max(0, refused.Retry-(m.l.clock.Now()-at))
			both.Err = errors.Join(refused.Err, err) // an attempt that was interrupted may have left something
			err = &both
		}
		e := Event{Waited: waited, Handed: !filled, Err: err}
		if waited {
			e.Wait = m.l.clock.Awake() - began
		}
		m.report(ctx, r, e)
		return err
	}
}

// report reports the result of a call.
func (m *Limiter) report(ctx context.Context, r *request, e Event) {
	e.Type, e.Took = EventGranted, m.l.clock.Awake()-r.Began
	if e.Err != nil {
		e.Type, e.Handed = EventRefused, false
	}
	r.emit(ctx, e)
	if e.Err == nil {
		r.emit(ctx, Event{Type: EventDetached})
	}
}

// pause waits for d, and reports whether ctx lasted as long. Close ends the pause.
func (m *Limiter) pause(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-m.l.queue.Closing():
		return true // the next attempt returns ErrClosed
	case <-ctx.Done():
		return false
	}
}

// draw takes passes from the pool, and fills it if there are too few. It reports whether it did.
func (m *Limiter) draw(ctx context.Context, r *request) (filled bool, err error) {
	if err := m.l.mayRead(ctx); err != nil {
		return false, err
	}
	for {
		m.mu.Lock()
		p := m.pool(r.name)
		spent, missing := p.take(r.Weight, m.l.clock.Now())
		if missing == 0 {
			m.mu.Unlock()
			m.settle(ctx, r, spent)
			return filled, nil
		}
		f, weight := p.fill, m.whole(missing)
		if f == nil {
			f = &fill{weight: weight, done: make(chan struct{})}
			p.fill = f
			m.mu.Unlock()
			filled = true
			if err := m.refill(ctx, r, p, f); err != nil {
				return true, err
			}
			continue
		}
		m.mu.Unlock()
		// One call fills the pool for all that come meanwhile: calls that need no less are refused
		// together with it. Any other error is the other call's own.
		select {
		case <-f.done:
		case <-ctx.Done():
			return filled, context.Cause(ctx)
		}
		var limited *LimitError
		if errors.As(f.err, &limited) && weight >= f.weight {
			own := *limited
			return filled, &own
		}
	}
}

// whole returns how much is missing, in whole shares.
func (m *Limiter) whole(missing int64) int64 { return min(m.n, (missing+m.share-1)/m.share*m.share) }

// refill takes a share from the store, and ends the fill.
func (m *Limiter) refill(ctx context.Context, r *request, p *pool, f *fill) error {
	var s share
	var err error
	defer func() { // also if an observer panics: then there is neither a share nor an error
		m.mu.Lock()
		defer m.mu.Unlock()
		if err == nil && s.left > 0 {
			p.shares = append(p.shares, s)
		}
		p.fill, f.err = nil, err
		close(f.done)
	}()
	s, err = m.takeShare(ctx, r, f.weight)
	return err
}

// takeShare takes a share from the store.
func (m *Limiter) takeShare(ctx context.Context, r *request, weight int64) (share, error) {
	call := r.derive()
	call.Weight, call.Wait = weight, 0
	if o := r.opt.observe; o != nil { // the call is reported once, however many attempts it makes
		call.opt.observe = func(ctx context.Context, e Event) {
			if e.Type == EventAttempted || e.Type == EventWithdrawn {
				o(ctx, e)
			}
		}
	}
	lease, err := m.l.queue.Acquire(ctx, &call.Call)
	if err != nil {
		return share{}, m.limited(r.name, err)
	}
	// Trust ends before the claim does. A pass that is spent a window before that counts for a
	// window.
	s := share{lease.ID(), weight, m.l.clock.Now() + lease.Hold().Left() - m.window}
	return s, lease.Detach(ctx)
}

// settle shortens the claims of spent shares to the window for which they still count. If that
// fails, they count for longer.
func (m *Limiter) settle(ctx context.Context, r *request, spent []driver.ID) {
	for _, id := range spent {
		call, cancel := m.l.queue.Call(ctx, min(queue.CallLimit, r.opt.ttl))
		_, _ = m.l.store.Renew(call, driver.Renewal{ID: id, TTL: m.window})
		cancel()
	}
}

// pool returns the pool of a name, and forgets a few others that are empty. The lock is held.
func (m *Limiter) pool(name string) *pool {
	p := m.pools[name]
	if p != nil {
		return p
	}
	p, looks, now := new(pool), 0, m.l.clock.Now()
	for other, o := range m.pools { // two are enough: a call adds one at most
		if o.fill == nil && o.expire(now) == 0 {
			delete(m.pools, other)
		}
		if looks++; looks == 2 {
			break
		}
	}
	m.pools[name] = p
	return p
}

// take takes n passes from the shares, those that expire first before others. It returns the claims
// of shares that are spent by that; or how many are missing, with nothing taken. The limiter's lock
// is held.
func (p *pool) take(n int64, now time.Duration) (spent []driver.ID, missing int64) {
	if left := p.expire(now); left < n {
		return nil, n - left
	}
	for n > 0 {
		s := &p.shares[0]
		some := min(n, s.left)
		s.left -= some
		n -= some
		if s.left == 0 {
			spent = append(spent, s.id)
			p.shares = p.shares[1:]
		}
	}
	return spent, 0
}

// expire drops shares that may not be spent any more, and returns how many passes are left. The
// limiter's lock is held.
func (p *pool) expire(now time.Duration) (left int64) {
	live := p.shares[:0]
	for _, s := range p.shares {
		if now < s.until {
			live = append(live, s)
			left += s.left
		}
	}
	p.shares = live
	return left
}
