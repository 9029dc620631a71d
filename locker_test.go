package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A lock without contention costs one Acquire and one Release.
func TestLocker_Lock_free(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		for name, take := range map[string]takeFunc{"lock": l.Lock, "try": l.TryLock, "read": l.RLock, "try to read": l.TryRLock} {
			g.reset()
			free(t, must(t)(take(t.Context(), name)))
			if s := g.total(); s != "acquire 1, renew 0, release 1" {
				t.Errorf("%s: %s", name, s)
			}
			if n := g.count("watch"); n != 0 {
				t.Errorf("%s: %d watches", name, n)
			}
		}
		g.empty(t, l)
	})
}

// A call makes no attempt while another call of its process makes one.
func TestLocker_Lock_attemptsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			time.Sleep(time.Second)
			return next(ctx, r)
		}
		var calls []*call
		for range 10 {
			calls = append(calls, begin(t.Context(), l.Lock, "k").waits(t))
		}
		for _, c := range calls {
			free(t, c.granted(t))
			c.within(t, time.Second, time.Second)
		}
		if s := g.total(); s != "acquire 1, renew 0, release 1" {
			t.Error(s)
		}
		g.empty(t, l)
	})
}

// TryLock creates no queue entry and does not wait, whether the lock is held by its own process or
// by another.
func TestLocker_TryLock(t *testing.T) {
	for _, where := range []string{"same process", "other process"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a := g.locker(t, distlock.Holder("me"))
				b := a
				if where == "other process" {
					b = g.locker(t)
				}
				first := must(t)(a.Lock(t.Context(), "k"))
				time.Sleep(time.Second)
				g.reset()
				for _, take := range []takeFunc{b.TryLock, b.TryRLock} {
					c := begin(t.Context(), take, "k")
					err := c.refused(t, distlock.ErrHeld)
					c.within(t, 0, 0)
					var held *distlock.HeldError
					if !errors.As(err, &held) || held.Holder != "me" || held.Fence != first.Fence() || held.Held != time.Second {
						t.Errorf("%+v", held)
					}
				}
				if s := g.total(); s != "acquire 2, renew 0, release 0" {
					t.Error(s)
				}
				g.expect(t, 1, 0)
				// Nor does it get in before the waiters.
				c := begin(t.Context(), a.Lock, "k", distlock.Holder("other")).waits(t)
				d := begin(t.Context(), b.Lock, "k").waits(t)
				if b != a {
					c, d = d, c // it is in the queue of the store
				}
				free(t, first)
				second := c.now(t)
				_, err := b.TryLock(t.Context(), "k")
				wants(t, err, distlock.ErrHeld)
				free(t, second)
				free(t, d.now(t))
				g.empty(t, a, b)
			})
		})
	}
}

func TestLocker_ReleaseAll(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l, other := g.locker(t), g.locker(t)
		var leases []*distlock.Lease
		for i := range 50 {
			leases = append(leases, must(t)(l.Lock(t.Context(), fmt.Sprint(i))))
		}
		leases = append(leases, must(t)(l.RLock(t.Context(), "r")), must(t)(l.RLock(t.Context(), "r")))
		kept := must(t)(other.Lock(t.Context(), "other"))
		local := begin(t.Context(), l.Lock, "0").waits(t)
		remote := begin(t.Context(), l.Lock, "other").waits(t)

		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the releases are sent all the same
		if err := l.ReleaseAll(ctx); err != nil {
			t.Fatal(err)
		}
		for _, lease := range leases {
			wants(t, lease.Err(), distlock.ErrReleased)
			free(t, lease) // again
		}
		free(t, local.now(t))
		remote.waits(t)
		if err := kept.Err(); err != nil {
			t.Error(err)
		}
		free(t, kept)
		free(t, remote.now(t))
		g.empty(t, l, other)

		must(t)(l.Lock(t.Context(), "a"))
		must(t)(l.Lock(t.Context(), "b"))
		g.set(func(g *gate) {
			g.release = func(_ context.Context, id driver.ID, next func() error) error {
				if id.Key == "a" {
					return errCut
				}
				return next()
			}
		})
		err := l.ReleaseAll(t.Context())
		wants(t, err, errCut, distlock.ErrUnknown)
		g.expect(t, 1, 0)
	})
}

func TestLocker_Close(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l, other := g.locker(t), g.locker(t)
		mine := must(t)(l.Lock(t.Context(), "mine"))
		given := must(t)(l.Lock(t.Context(), "given"))
		handle, err := given.Detach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		theirs := must(t)(other.Lock(t.Context(), "theirs"))
		waiters := []*call{
			begin(t.Context(), l.Lock, "mine").waits(t), begin(t.Context(), l.RLock, "mine").waits(t),
			begin(t.Context(), l.Lock, "theirs").waits(t), begin(t.Context(), l.RLock, "theirs").waits(t),
		}
		g.expect(t, 3, 1)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.expect(t, 2, 0) // given away, and theirs
		for _, c := range waiters {
			c.refused(t, distlock.ErrClosed)
			c.within(t, 0, 0)
		}
		wants(t, mine.Err(), distlock.ErrReleased)
		free(t, mine)

		nothing := func(context.Context) error { return errors.New("ran") }
		calls := g.total()
		for name, err := range map[string]error{
			"Lock":     errOf(l.Lock(t.Context(), "k")),
			"TryLock":  errOf(l.TryLock(t.Context(), "k")),
			"RLock":    errOf(l.RLock(t.Context(), "k")),
			"TryRLock": errOf(l.TryRLock(t.Context(), "k")),
			"Attach":   errOf(l.Attach(t.Context(), handle)),
			"Do":       l.Do(t.Context(), "k", nothing),
			"TryDo":    errOf(l.TryDo(t.Context(), "k", nothing)),
			"Ping":     l.Ping(t.Context()),
		} {
			if !errors.Is(err, distlock.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(l.ReleaseAll(t.Context()), l.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if g.total() != calls {
			t.Errorf("a closed Locker called the store: %s, then %s", calls, g.total())
		}
		free(t, theirs)
	})
}

func errOf[T any](_ T, err error) error { return err }

// Close during the attempts of calls: their claims are released.
func TestLocker_Close_duringAttempts(t *testing.T) {
	for _, attempt := range []string{"first, granted", "first, refused", "of the runner", "to reacquire"} {
		t.Run(attempt, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				l, other := g.locker(t), g.locker(t)
				var theirs *distlock.Lease
				var c *call
				slow := func() {
					g.set(func(g *gate) {
						g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
							time.Sleep(time.Second)
							return next(context.WithoutCancel(ctx), r)
						}
					})
				}
				switch attempt {
				case "first, granted":
					slow()
					c = begin(t.Context(), l.Lock, "k")
				case "first, refused":
					theirs = must(t)(other.Lock(t.Context(), "k"))
					slow()
					c = begin(t.Context(), l.Lock, "k")
				case "of the runner":
					theirs = must(t)(other.Lock(t.Context(), "k"))
					c = begin(t.Context(), l.Lock, "k").waits(t)
					slow()
					free(t, theirs)
					theirs = nil
				case "to reacquire":
					lease := must(t)(l.Lock(t.Context(), "k"))
					c = begin(t.Context(), l.Lock, "k").waits(t)
					time.Sleep(time.Second)
					slow()
					free(t, lease)
				}
				c.waits(t)
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
				c.refused(t, distlock.ErrClosed)
				if theirs != nil {
					free(t, theirs)
				}
				g.empty(t, l, other)
			})
		})
	}
}

// Close reports the claims that it could not release. It does not hang on a store that hangs.
func TestLocker_Close_frozen(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		for i := range 100 {
			must(t)(l.Lock(t.Context(), fmt.Sprint(i)))
		}
		c := begin(t.Context(), l.Lock, "0").waits(t)
		g.freeze()
		start := time.Now()
		err := l.Close(t.Context())
		wants(t, err, distlock.ErrUnknown)
		if d := time.Since(start); d > time.Minute {
			t.Errorf("Close took %v", d)
		}
		c.refused(t, distlock.ErrClosed)
		c.within(t, 0, 0)
	})
}

// Close is called at any time, by several goroutines.
func TestLocker_Close_concurrent(t *testing.T) {
	t.Parallel()
	for seed := range 50 {
		g := newGate()
		lockers := make([]*distlock.Locker, 3)
		for i := range lockers {
			lockers[i] = g.locker(t)
		}
		var wg sync.WaitGroup
		for i := range 24 {
			l := lockers[i%3]
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			wg.Go(func() {
				for {
					lease, err := []takeFunc{l.Lock, l.RLock}[rng.IntN(2)](context.Background(), fmt.Sprint(rng.IntN(3)))
					if err != nil {
						if !errors.Is(err, distlock.ErrClosed) {
							t.Errorf("Lock: %v", err)
						}
						return
					}
					if rng.IntN(4) == 0 {
						time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond) // a hold, not a wait for an event
					}
					if err := lease.Unlock(context.Background()); err != nil {
						t.Errorf("Unlock: %v", err)
					}
				}
			})
		}
		for _, l := range lockers {
			for range 2 {
				wg.Go(func() {
					time.Sleep(5 * time.Millisecond)
					if err := l.Close(context.Background()); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
			}
		}
		wg.Wait()
		g.empty(t, lockers...)
	}
}

func TestLocker_Ping(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		events := 0
		l := g.locker(t, distlock.Observe(func(context.Context, distlock.Event) { events++ }))
		if err := l.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if s := g.total(); s != "acquire 1, renew 0, release 1" {
			t.Error(s)
		}
		g.empty(t, l)
		why := errors.New("the probe has no time")
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, c := range []struct {
			name string
			ctx  context.Context
			set  func()
			want []error
		}{
			{"down", t.Context(), func() {
				g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
					return driver.Result{}, errCut
				}
			}, []error{errCut, distlock.ErrUnavailable}},
			{"read-only", t.Context(), func() {
				g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
					return driver.Result{}, driver.ErrUnavailable
				}
			}, []error{driver.ErrUnavailable, distlock.ErrUnavailable}},
			{"cannot release", t.Context(), func() {
				g.release = func(context.Context, driver.ID, func() error) error { return errCut }
			}, []error{errCut, distlock.ErrUnknown}},
			{"frozen", ctx, func() {
				g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
					cancel(why)
					<-ctx.Done()
					return driver.Result{}, ctx.Err()
				}
			}, []error{why, context.Canceled}},
		} {
			g.mend()
			c.set()
			err := l.Ping(c.ctx)
			wants(t, err, c.want...)
			var op *distlock.OpError
			if !errors.As(err, &op) || op.Op != "ping" || op.Name != "" {
				t.Errorf("%s: %+v", c.name, op)
			}
		}
		if events != 0 {
			t.Errorf("%d events, but no lock of a user", events)
		}
	})
}

func TestLocker_arguments(t *testing.T) {
	g := newGate()
	l := g.locker(t)
	var none context.Context
	for name, err := range map[string]error{
		"New":        errOf(distlock.New(nil)),
		"Lock":       errOf(l.Lock(none, "k")),
		"name":       errOf(l.Lock(t.Context(), "")),
		"option":     errOf(l.Lock(t.Context(), "k", distlock.MaxWait(-1))),
		"Ping":       l.Ping(none),
		"ReleaseAll": l.ReleaseAll(none),
		"Close":      l.Close(none),
	} {
		if !errors.Is(err, distlock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := g.total(); s != "acquire 0, renew 0, release 0" {
		t.Errorf("the store was called: %s", s)
	}
}

// All calls at once, in real time. The race detector checks that the lock protects the counter.
func TestLocker_stress(t *testing.T) {
	t.Parallel()
	length := time.Second
	if os.Getenv("CI") == "true" {
		length = 3 * time.Second
	}
	g := newGate()
	s := &stress{t: t, until: time.Now().Add(length)}
	end := s.until.Add(time.Minute) // for a scheduler stall
	for i := range s.lockers {
		s.lockers[i] = g.locker(t)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for (time.Now().Before(s.until) || s.little() && time.Now().Before(end)) && !t.Failed() {
				s.step(rng)
			}
		})
	}
	wg.Wait()
	g.empty(t, s.lockers[:]...)
	t.Logf("%d leases, %d read, %d refused, %d given to another process", s.granted.Load(), s.read.Load(), s.refused.Load(), s.given.Load())
	if s.little() {
		t.Error("too little happened for a verdict")
	}
}

type stress struct {
	t       *testing.T
	until   time.Time
	lockers [3]*distlock.Locker
	keys    [5]struct {
		writes uint64 // only the lock synchronises it
		fence  uint64
	}
	granted, read, refused, given atomic.Int64
}

// little reports whether too little has happened for a verdict.
func (s *stress) little() bool {
	return s.granted.Load() < 1000 || s.read.Load() < 100 || s.refused.Load() < 10 || s.given.Load() < 10
}

func (s *stress) step(rng *rand.Rand) {
	k := rng.IntN(len(s.keys))
	key := &s.keys[k]
	l := s.lockers[rng.IntN(len(s.lockers))]
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if rng.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	dice := rng.IntN(10)
	take := l.Lock
	switch {
	case dice < 2:
		take = l.TryLock
	case dice < 4:
		take = l.RLock
	}
	lease, err := take(ctx, fmt.Sprint(k))
	if err != nil {
		s.refused.Add(1)
		if !errors.Is(err, distlock.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) {
			s.t.Errorf("Lock: %v", err)
		}
		return
	}
	if rng.IntN(20) == 0 {
		lease = s.give(rng, lease)
	}
	if lease.Mode() == distlock.ModeShared {
		_ = key.writes
		s.read.Add(1)
	} else {
		key.writes++
		if lease.Fence() <= key.fence {
			s.t.Errorf("fence %d after %d", lease.Fence(), key.fence)
		}
		key.fence = lease.Fence()
		s.granted.Add(1)
	}
	if err := lease.Unlock(ctx); err != nil {
		s.t.Errorf("Unlock: %v", err)
	}
}

// give hands a lease to another process.
func (s *stress) give(rng *rand.Rand, lease *distlock.Lease) *distlock.Lease {
	h, err := lease.Detach(s.t.Context())
	if err != nil {
		s.t.Errorf("Handle: %v", err)
		return lease
	}
	got, err := s.lockers[rng.IntN(len(s.lockers))].Attach(context.Background(), h)
	if err != nil {
		s.t.Errorf("Attach: %v", err)
		return lease
	}
	s.given.Add(1)
	return got
}

// A Locker keeps no memory of idle names, however many there were.
func TestLocker_forgetsKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l, other := g.locker(t), g.locker(t)
		for i := range 300 {
			name := fmt.Sprint(i)
			lease := must(t)(other.Lock(t.Context(), name))
			_, err := l.TryLock(t.Context(), name)
			wants(t, err, distlock.ErrHeld)
			_, err = l.Lock(t.Context(), name, distlock.MaxWait(time.Millisecond))
			wants(t, err, distlock.ErrHeld)
			_, err = l.Lock(t.Context(), name, distlock.MaxAttempts(2))
			wants(t, err, distlock.ErrHeld)
			free(t, lease)
		}
		g.empty(t, l, other)
	})
}

// A lockProbe fails the test when it is called while the Locker's mutex is held. Code of users,
// which the Locker calls, may use the Locker: the Err of a lease's context does.
type lockProbe struct {
	t      *testing.T
	locker atomic.Pointer[distlock.Locker]
	calls  atomic.Int64
	failed atomic.Bool // one failed check is enough: it takes seconds
}

func (o *lockProbe) check(what string) {
	o.calls.Add(1)
	if l := o.locker.Load(); l != nil && !o.failed.Load() && distlock.Locked(l) {
		o.failed.Store(true)
		o.t.Errorf("%s was called with the Locker's lock held: it would deadlock", what)
	}
}

// foreignContext is a context that a user wrote.
type foreignContext struct {
	context.Context
	*lockProbe
}

func (c foreignContext) Deadline() (time.Time, bool) {
	c.check("Deadline of a context")
	return c.Context.Deadline()
}

func (c foreignContext) Done() <-chan struct{} {
	c.check("Done of a context")
	return c.Context.Done()
}

func (c foreignContext) Err() error {
	c.check("Err of a context")
	return c.Context.Err()
}

func (c foreignContext) Value(key any) any {
	c.check("Value of a context")
	return c.Context.Value(key)
}

// foreignStore is a store that a user wrote.
type foreignStore struct {
	*mem.Store
	*lockProbe
}

func (s foreignStore) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.check("Acquire of the store")
	return s.Store.Acquire(ctx, r)
}

func (s foreignStore) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	s.check("Renew of the store")
	return s.Store.Renew(ctx, r)
}

func (s foreignStore) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	s.check("RenewAll of the store")
	return s.Store.RenewAll(ctx, rs)
}

func (s foreignStore) Release(ctx context.Context, id driver.ID) error {
	s.check("Release of the store")
	return s.Store.Release(ctx, id)
}

func (s foreignStore) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	s.check("Watch of the store")
	return s.Store.Watch(ctx, id)
}

func (s foreignStore) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	s.check("Show of the store")
	return s.Store.Show(ctx, key)
}

// No context, observer or store is called with the Locker's lock held.
func TestLocker_callsNobodyUnderItsLock(t *testing.T) {
	work := func(context.Context) error { return nil }
	for name, call := range map[string]func(ctx context.Context, l *distlock.Locker, lease *distlock.Lease){
		"Lock": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.Lock(ctx, "free") },
		"Lock, waiting": func(ctx context.Context, l *distlock.Locker, lease *distlock.Lease) {
			time.AfterFunc(time.Minute, func() { _ = lease.Unlock(ctx) })
			_, _ = l.Lock(ctx, "held")
		},
		"Lock, not granted": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) {
			_, _ = l.Lock(ctx, "held", distlock.MaxWait(time.Minute))
		},
		"TryLock":  func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.TryLock(ctx, "held") },
		"RLock":    func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.RLock(ctx, "free") },
		"TryRLock": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.TryRLock(ctx, "held") },
		"Do":       func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.Do(ctx, "free", work) },
		"TryDo":    func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.TryDo(ctx, "free", work) },
		"Ping":     func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.Ping(ctx) },
		"Status": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) {
			_, _ = l.Status(ctx, distlock.KindLock, "held")
		},
		"Claims": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) {
			for range l.List(ctx, distlock.KindAny, "") {
			}
		},
		"Attach": func(ctx context.Context, l *distlock.Locker, lease *distlock.Lease) {
			h, _ := lease.Detach(t.Context())
			_, _ = l.Attach(ctx, h)
		},
		"Extend": func(ctx context.Context, _ *distlock.Locker, lease *distlock.Lease) { _ = lease.Extend(ctx, time.Hour) },
		"Unlock": func(ctx context.Context, _ *distlock.Locker, lease *distlock.Lease) { _ = lease.Unlock(ctx) },
		"Context": func(ctx context.Context, _ *distlock.Locker, lease *distlock.Lease) {
			_ = lease.Context(ctx).Err()
		},
		"ReleaseAll": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.ReleaseAll(ctx) },
		"Close":      func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &lockProbe{t: t}
				observe := func(context.Context, distlock.Event) { o.check("an observer") }
				l, err := distlock.New(foreignStore{mem.New(), o}, distlock.Observe(observe))
				if err != nil {
					t.Fatal(err)
				}
				o.locker.Store(l)
				lease := must(t)(l.Lock(t.Context(), "held"))
				before := o.calls.Load()

				ctx, cancel := context.WithCancel(t.Context())
				call(foreignContext{ctx, o}, l, lease)
				cancel()
				call(foreignContext{ctx, o}, l, lease) // the lease has ended
				if o.calls.Load() == before {
					t.Error("nothing was called")
				}
				_ = l.Close(context.Background())
			})
		})
	}
}

// Close cancels the functions that run under a lock, and no other holder comes in before they have
// returned, unless the context of Close ends.
func TestLocker_Close_waitsForFunctions(t *testing.T) {
	const work = 50 * time.Second // after the end of the context: longer than a TTL
	for name, run := range runners {
		for _, patience := range []time.Duration{time.Hour, 20 * time.Second} {
			t.Run(name+" "+patience.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, g *gate) {
					l, began := g.locker(t), make(chan *distlock.Lease)
					ended := make(chan error, 1)
					go func() {
						ended <- run(context.Background(), l, "x", func(ctx context.Context) error {
							began <- distlock.FromContext(ctx)
							<-ctx.Done()
							if cause := context.Cause(ctx); !errors.Is(cause, distlock.ErrClosed) {
								t.Errorf("the context ended with %v", cause)
							}
							time.Sleep(work)
							return nil
						})
					}()
					lease := <-began
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					start := time.Now()
					time.AfterFunc(min(work, patience)-time.Second, func() {
						if err := lease.Err(); err != nil {
							t.Errorf("the lease ended before the function: %v", err)
						}
					})
					if err := l.Close(ctx); err != nil {
						t.Error(err)
					}
					if took := time.Since(start); took != min(work, patience) {
						t.Errorf("Close took %v", took)
					}
					if err := lease.Err(); !errors.Is(err, distlock.ErrReleased) {
						t.Errorf("the lease after Close: %v", err)
					}
					switch err := <-ended; {
					case name == "Election.Run":
						wants(t, err, distlock.ErrClosed)
					case patience < work && (name == "Once.Do" || name == "Cron.Run"):
						wants(t, err, distlock.ErrNotRecorded)
					case patience < work: // the function ended without the lock
						wants(t, err, distlock.ErrReleased)
					case err != nil:
						t.Error(err)
					}
				})
			})
		}
	}
}

// A function whose lock is granted while Close begins does not run.
func TestLocker_Close_beforeTheFunction(t *testing.T) {
	for name, run := range runners {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				var l *distlock.Locker
				l = g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
					if e.Type == distlock.EventGranted {
						go func() { _ = l.Close(context.Background()) }()
						synctest.Wait()
					}
				}))
				err := run(context.Background(), l, "x", func(context.Context) error { t.Error("it ran"); return nil })
				wants(t, err, distlock.ErrClosed, distlock.ErrNotAcquired)
			})
		})
	}
}

// A function that has released its lock itself does not block Close.
func TestLocker_Close_afterUnlock(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		err := l.Do(t.Context(), "x", func(ctx context.Context) error {
			free(t, distlock.FromContext(ctx))
			return l.Close(context.Background())
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// late is the longest time from the end of a call's ctx to its return.
const late = 20 * time.Millisecond

// A call that acquires or reads returns within 20 ms of the end of its ctx, although the store does
// not answer any more. A goroutine releases the claim that the call may have left in the store, and
// Close waits for it.
func TestBound(t *testing.T) {
	const bound = 90 * time.Millisecond
	calls := map[string]func(ctx context.Context, l *distlock.Locker, name string) error{
		"Locker.Why": func(ctx context.Context, l *distlock.Locker, name string) error {
			_, err := l.Status(ctx, distlock.KindLock, name)
			return err
		},
		"Locker.Ping": func(ctx context.Context, l *distlock.Locker, _ string) error { return l.Ping(ctx) },
		"TryLock": func(ctx context.Context, l *distlock.Locker, name string) error {
			_, err := l.TryLock(ctx, name)
			return err
		},
		"large Limiter": func(ctx context.Context, l *distlock.Locker, name string) error {
			m, err := l.Limiter(1_000_000, time.Hour)
			if err == nil {
				err = m.Wait(ctx, name)
			}
			return err
		},
		"Leader": func(ctx context.Context, l *distlock.Locker, name string) error {
			e, err := l.Election()
			if err == nil {
				_, err = e.Leader(ctx, name)
			}
			return err
		},
	}
	for _, all := range []map[string]runFunc{runners, takers} {
		for name, call := range all {
			calls[name] = func(ctx context.Context, l *distlock.Locker, key string) error {
				return call(ctx, l, key, func(context.Context) error { t.Error("it ran"); return nil })
			}
		}
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				l := lockerOn(t, w)
				w.on(nil, hang) // requests take effect, and are never answered
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				began := time.Now()
				err := call(ctx, l, "x")
				if took := time.Since(began); err == nil || took < bound || took > bound+late {
					t.Errorf("%v after %v", err, took)
				}
				w.mend()
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
				for c := range w.Store.List(t.Context(), "") {
					t.Errorf("left behind: %+v", c)
				}
			})
		})
	}
}

// hang blocks until ctx ends.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// The same holds for a call that waits: in the queue, with a lease in its context, and with one
// lock of two acquired.
func TestBound_waiting(t *testing.T) {
	const bound = 3 * time.Second
	for name, call := range map[string]func(ctx context.Context, l *distlock.Locker, own *distlock.Lease) error{
		"in the queue": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) error {
			_, err := l.Lock(ctx, "held")
			return err
		},
		"with a lease": func(ctx context.Context, l *distlock.Locker, own *distlock.Lease) error {
			_, err := l.Lock(own.Context(ctx), "held")
			return err
		},
		"with one of two": func(ctx context.Context, l *distlock.Locker, own *distlock.Lease) error {
			_, err := l.LockAll(own.Context(ctx), []string{"free", "held"})
			return err
		},
		"for a slot": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) error {
			s, err := l.Semaphore(1)
			if err != nil {
				return err
			}
			_, _ = s.Acquire(ctx, "held")
			_, err = s.Acquire(ctx, "held")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				taken(t, lockerOn(t, w, distlock.TTL(time.Hour)), "held")
				l := lockerOn(t, w)
				own := taken(t, l, "own")
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				time.AfterFunc(2*time.Second, func() { w.on(hang, hang) })
				began := time.Now()
				err := call(ctx, l, own)
				if took := time.Since(began); took < bound || took > bound+late {
					t.Errorf("%v after %v", err, took)
				}
				wants(t, err, distlock.ErrNotAcquired, context.DeadlineExceeded)
				w.mend()
			})
		})
	}
}

// A call without a deadline on a store that does not answer gives up after 5 s, or after its TTL if
// that is shorter. It takes up to a second to undo its attempt.
func TestBound_none(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{time.Minute: 6 * time.Second, time.Second: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w, distlock.TTL(ttl))
			before := taken(t, lockerOn(t, w), "contended")
			// After this refusal the next call enters the queue at once.
			_, _ = l.Lock(t.Context(), "contended", distlock.MaxWait(time.Millisecond))
			free(t, before)
			w.on(hang, nil)
			for name, take := range map[string]takeFunc{"x": l.TryLock, "y": l.Lock, "contended": l.Lock} {
				began := time.Now()
				_, err := take(t.Context(), name)
				if took := time.Since(began); took > most {
					t.Errorf("TTL %v, %s: it took %v", ttl, name, took)
				}
				wants(t, err, distlock.ErrNotAcquired, distlock.ErrUnknown)
			}
			w.mend()
		})
	}
}

// If a fast store undoes the attempt in time, the outcome is known.
func TestBound_undoneInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		w.on(nil, func(ctx context.Context, verb string) error {
			if verb == "acquire" {
				return hang(ctx, verb)
			}
			time.Sleep(2 * time.Millisecond)
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.TryLock(ctx, "x")
		wants(t, err, distlock.ErrUnavailable, context.DeadlineExceeded)
		if errors.Is(err, distlock.ErrUnknown) {
			t.Error(err)
		}
		if claims, _ := driver.Show(t.Context(), w.Store, "x"); len(claims) > 0 {
			t.Errorf("left behind: %+v", claims)
		}
		w.mend()
	})
}

// Close waits for the releases that calls have left to the background, and not for ever.
func TestBound_close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		w.on(hang, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.TryLock(ctx, "x")
		wants(t, err, distlock.ErrUnknown)
		began := time.Now()
		_ = l.Close(t.Context())
		if took := time.Since(began); took == 0 || took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// An attempt whose answers are lost does not return ErrHeld: it was undone, or its outcome is
// unknown.
func TestLocker_TryLock_unknown(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			_, _ = next(ctx, r)
			return driver.Result{}, errCut
		}
		try := func(want error) {
			t.Helper()
			_, err := l.TryLock(t.Context(), "k")
			wants(t, err, want)
			if errors.Is(err, distlock.ErrHeld) {
				t.Error(err)
			}
		}
		try(distlock.ErrUnavailable)
		g.empty(t)
		g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		try(distlock.ErrUnknown)
	})
}

// The first attempt reaches the store late, so that the second one is refused because of it. Its
// claim is released.
func TestLocker_TryLock_underWay(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		attempts := 0
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if attempts++; attempts == 1 {
				return driver.Result{}, errCut
			}
			if _, err := next(ctx, r); err != nil { // the first takes effect
				t.Error(err)
			}
			return driver.Result{Used: driver.Whole}, nil
		}
		_, err := l.TryLock(t.Context(), "k")
		wants(t, err, distlock.ErrHeld)
		g.empty(t)
		attempts = 0
		g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		if _, err = l.TryLock(t.Context(), "k"); errors.Is(err, distlock.ErrHeld) {
			t.Error(err)
		}
		wants(t, err, distlock.ErrUnknown)
	})
}
