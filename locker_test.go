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
