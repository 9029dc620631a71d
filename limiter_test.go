package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func limiter(t *testing.T, l *distlock.Locker, n int64, window time.Duration) *distlock.Limiter {
	t.Helper()
	m, err := l.Limiter(n, window)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// passes records the calls that a limiter let pass.
type passes struct {
	mu  sync.Mutex
	all []pass
}

type pass struct {
	at     time.Duration
	weight int64
}

func (p *passes) add(at time.Duration, weight int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, pass{at, weight})
}

// check fails if more than n passed in any window. It returns the highest sum of a window. The
// passes are in order of time.
func (p *passes) check(t *testing.T, n int64, window time.Duration) (most int64) {
	t.Helper()
	first, sum := 0, int64(0)
	for _, last := range p.all {
		sum += last.weight
		for p.all[first].at <= last.at-window {
			sum -= p.all[first].weight
			first++
		}
		if sum > n {
			t.Fatalf("%d passed within %v before %v, over the limit of %d", sum, window, last.at, n)
		}
		most = max(most, sum)
	}
	return most
}

func TestLimiter_Allow(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		here, there := limiter(t, a, 3, time.Minute), limiter(t, b, 3, time.Minute)
		allow := func(m *distlock.Limiter, opts ...distlock.Option) {
			t.Helper()
			if err := m.Allow(t.Context(), "api", opts...); err != nil {
				t.Fatal(err)
			}
		}
		allow(here)
		time.Sleep(20 * time.Second)
		allow(there, distlock.Weight(2))

		err := here.Allow(t.Context(), "api")
		wants(t, err, distlock.ErrLimited, distlock.ErrHeld)
		var limited *distlock.LimitError
		if !errors.As(err, &limited) || limited.Retry != 40*time.Second || limited.Limit != 3 || limited.Window != time.Minute {
			t.Fatalf("refused with %+v", limited)
		}
		if want := `distlock: "api" is over its limit of 3 in 1m0s, retry in 40s`; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if err := here.Allow(t.Context(), "other"); err != nil {
			t.Errorf("another name: %v", err)
		}
		time.Sleep(limited.Retry) // the window slides: one pass is free, two are not
		allow(there)
		wants(t, here.Allow(t.Context(), "api"), distlock.ErrLimited)
		time.Sleep(20 * time.Second)
		allow(here, distlock.Weight(2))
		if n := distlock.Keys(a) + distlock.Keys(b); n != 0 {
			t.Errorf("%d keys are left", n)
		}
		time.Sleep(time.Minute)
		g.empty(t, a, b)
	})
}

func TestLimiter_Wait(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		here, there := limiter(t, a, 1, 10*time.Second), limiter(t, b, 1, 10*time.Second)
		var passed order
		var wg sync.WaitGroup
		for i, m := range []*distlock.Limiter{here, there, here, there} {
			wg.Go(func() {
				if err := m.Wait(t.Context(), "api"); err != nil {
					t.Error(err)
				}
				passed.add("%d", i)
			})
			synctest.Wait()
		}
		began := time.Now()
		wg.Wait()
		if got := passed.String(); got != "0 1 2 3" {
			t.Errorf("passed in the order %s", got)
		}
		if took := time.Since(began); took < 30*time.Second || took > 30*time.Second+100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wants(t, here.Wait(ctx, "api"), distlock.ErrLimited, context.DeadlineExceeded)
		wants(t, there.Wait(t.Context(), "api", distlock.MaxWait(time.Second)), distlock.ErrLimited, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		g.empty(t, a, b)
	})
}

// TestLimiter_neverOver lets processes pass as fast as they can, for several windows. A small limit
// counts a pass when the store grants it, and the test has no delay there. A share counts when it
// is spent, however late the answers of the store come.
func TestLimiter_neverOver(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.Int64N(40)
		if seed%2 == 1 {
			n = 1001 + rng.Int64N(9000)
		}
		t.Run(fmt.Sprintf("seed %d limit %d", seed, n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				window := time.Duration(1+rng.IntN(20)) * time.Second
				if n > 1000 {
					late := rand.New(rand.NewPCG(seed, 4))
					g.set(func(g *gate) {
						g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
							g.mu.Lock()
							before, after := time.Duration(late.Int64N(int64(window/20))), time.Duration(late.Int64N(int64(window/20)))
							g.mu.Unlock()
							time.Sleep(before)
							defer time.Sleep(after)
							return next(ctx, r)
						}
					})
				}
				var passed passes
				began, most := time.Now(), 3*window
				var wg sync.WaitGroup
				for range 3 {
					m := limiter(t, g.locker(t), n, window)
					for range 4 {
						mine := rand.New(rand.NewPCG(rng.Uint64(), 1))
						wg.Go(func() {
							for time.Since(began) < most {
								weight := 1 + mine.Int64N(max(1, n/20))
								try, opts := m.Allow, []distlock.Option{distlock.Weight(weight)}
								if mine.IntN(3) == 0 {
									try, opts = m.Wait, append(opts, distlock.MaxWait(window))
								}
								switch err := try(t.Context(), "api", opts...); {
								case err == nil:
									passed.add(time.Since(began), weight)
								case !errors.Is(err, distlock.ErrLimited):
									t.Error(err)
								}
								time.Sleep(time.Duration(mine.Int64N(int64(window / 30))))
							}
						})
					}
				}
				wg.Wait()
				got := passed.check(t, n, window)
				// Shares that are not spent yet, and shares whose exact end is not known, cost a
				// part of the limit.
				if got < n/2 {
					t.Errorf("never more than %d passed in a window: something else than the limit of %d bounds them", got, n)
				}
			})
		})
	}
}

func TestLimiter_shares(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		m := limiter(t, l, 10_000, time.Minute) // in shares of ten
		for range 10_000 {
			if err := m.Allow(t.Context(), "api"); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := g.total(), "acquire 1000, renew 1000, release 0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		g.expect(t, 1000, 0)
		wants(t, m.Allow(t.Context(), "api"), distlock.ErrLimited)
		time.Sleep(time.Minute) // the claims of spent shares end after a window
		if err := m.Allow(t.Context(), "api", distlock.Weight(10_000)); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		g.empty(t, l)
	})
}

func TestLimiter_shares_unspent(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		m := limiter(t, l, 2000, 10*time.Second) // in shares of two
		for _, d := range []time.Duration{0, 8 * time.Second, 0} {
			time.Sleep(d)
			if err := m.Allow(t.Context(), "api"); err != nil {
				t.Fatal(err)
			}
		}
		if n := g.count("acquire"); n != 2 {
			t.Errorf("%d attempts, want 2: the share can be spent for a window", n)
		}
		time.Sleep(10 * time.Second) // the rest of the second share would not count for a whole window any more
		if err := m.Allow(t.Context(), "api"); err != nil {
			t.Fatal(err)
		}
		if n := g.count("acquire"); n != 3 {
			t.Errorf("%d attempts, want 3: a share was spent too late", n)
		}
		time.Sleep(time.Minute)
		g.empty(t, l)
	})
}

// TestLimiter_exact has one process for each call, and one that spends shares. Together they use
// the whole limit, for a window and no longer.
func TestLimiter_exact(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		all := []*distlock.Locker{g.locker(t)}
		if err := limiter(t, all[0], 2000, time.Minute).Allow(t.Context(), "api"); err != nil { // a share of two
			t.Fatal(err)
		}
		for range 998 {
			l := g.locker(t)
			all = append(all, l)
			if err := limiter(t, l, 2000, time.Minute).Allow(t.Context(), "api", distlock.Exact()); err != nil {
				t.Fatal(err)
			}
		}
		last := g.locker(t, distlock.Exact())
		all = append(all, last)
		m := limiter(t, last, 2000, time.Minute)
		for _, weight := range []int64{999, 1} {
			if err := m.Allow(t.Context(), "api", distlock.Weight(weight)); err != nil {
				t.Fatal(err)
			}
		}
		if n := g.count("renew"); n != 0 {
			t.Errorf("%d claims were cut: none was a share", n)
		}
		err := m.Allow(t.Context(), "api")
		var limited *distlock.LimitError
		if !errors.As(err, &limited) || limited.Retry != time.Minute {
			t.Errorf("with nothing left: %v", err)
		}
		time.Sleep(time.Minute)
		if err := m.Allow(t.Context(), "api", distlock.Weight(1998)); err != nil { // the share counts for two windows
			t.Error(err)
		}
		time.Sleep(time.Minute)
		g.empty(t, all...)
	})
}

// TestLimiter_shares_together makes many calls at once: one of them acquires a share. The next
// attempt comes only when the share is spent.
func TestLimiter_shares_together(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		m := limiter(t, l, 100_000, time.Minute) // in shares of a hundred
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				time.Sleep(time.Millisecond)
				return next(ctx, r)
			}
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := m.Allow(t.Context(), "api"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := g.count("acquire"); n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
		// A call that is cancelled during its attempt does not fail the others.
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { first <- m.Allow(ctx, "api") }()
		synctest.Wait()
		second := make(chan error)
		go func() { second <- m.Allow(t.Context(), "api") }()
		synctest.Wait()
		cancel()
		wants(t, <-first, context.Canceled)
		if err := <-second; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
	})
}

// A call is refused together with another one only if its weight is not smaller.
func TestLimiter_shares_refusedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		m := limiter(t, l, 10_000, time.Minute) // in shares of ten
		if err := m.Allow(t.Context(), "api", distlock.Weight(7000)); err != nil {
			t.Fatal(err)
		}
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				time.Sleep(time.Millisecond)
				return next(ctx, r)
			}
		})
		for _, c := range []struct {
			weight   int64 // at the same time as a weight of 5000
			want     error
			attempts int
		}{{4995, distlock.ErrLimited, 1}, {5001, distlock.ErrLimited, 1}, {1, nil, 2}} {
			g.reset()
			first, second := make(chan error), make(chan error)
			go func() { first <- m.Allow(t.Context(), "api", distlock.Weight(5000)) }()
			synctest.Wait()
			go func() { second <- m.Allow(t.Context(), "api", distlock.Weight(c.weight)) }()
			wants(t, <-first, distlock.ErrLimited)
			if err := <-second; !errors.Is(err, c.want) {
				t.Errorf("with 3000 left and 5000 refused, %d: %v", c.weight, err)
			}
			if n := g.count("acquire"); n != c.attempts {
				t.Errorf("%d attempts, want %d", n, c.attempts)
			}
		}
		time.Sleep(2 * time.Minute)
		g.empty(t, l)
	})
}

func TestLimiter_shares_forgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		m := limiter(t, g.locker(t), 2000, time.Second)
		for i := range 1000 {
			if err := m.Allow(t.Context(), fmt.Sprint("user/", i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := distlock.Pools(m); n > 50 {
			t.Errorf("%d names are remembered, of which ten were used within a window", n)
		}
	})
}

func TestLimiter_shares_wait(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		m := limiter(t, l, 2000, 10*time.Second)
		if err := m.Allow(t.Context(), "api", distlock.Weight(2000)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		wants(t, m.Wait(t.Context(), "api", distlock.MaxWait(time.Second)), distlock.ErrLimited, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if err := m.Wait(t.Context(), "api"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
	})
}

func TestLimiter_events(t *testing.T) {
	for _, n := range []int64{2, 2000} {
		inBubble(t, func(t *testing.T, g *gate) {
			var events order
			m := limiter(t, g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
				if e.Type != distlock.EventAttempted {
					events.add("%v", e.Type)
				}
			})), n, time.Second)
			for range 3 {
				_ = m.Allow(t.Context(), "api", distlock.Weight(n/2))
			}
			_ = m.Wait(t.Context(), "api")
			if got, want := events.String(), "granted detached granted detached refused waiting granted detached"; got != want {
				t.Errorf("limit %d: events %q, want %q", n, got, want)
			}
			time.Sleep(time.Minute)
		})
	}
}

func TestLimiter_closed(t *testing.T) {
	for _, n := range []int64{2, 2000} {
		l := newGate().locker(t)
		m := limiter(t, l, n, time.Minute)
		if err := m.Allow(t.Context(), "api"); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wants(t, m.Allow(t.Context(), "api"), distlock.ErrClosed)
	}
}

func TestLimiter_closedWhileWaiting(t *testing.T) {
	for _, n := range []int64{2, 2000} {
		inBubble(t, func(t *testing.T, g *gate) {
			l := g.locker(t)
			m := limiter(t, l, n, time.Hour)
			if err := m.Allow(t.Context(), "api", distlock.Weight(n)); err != nil {
				t.Fatal(err)
			}
			began, done := time.Now(), make(chan error, 1)
			go func() { done <- m.Wait(t.Context(), "api") }()
			synctest.Wait()
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
			wants(t, <-done, distlock.ErrClosed)
			if took := time.Since(began); took > 0 {
				t.Errorf("limit %d: the wait ended %v after Close", n, took)
			}
		})
	}
}

// The error of a wait says when there will be capacity, counted from the end of the wait.
func TestLimiter_Wait_retry(t *testing.T) {
	for _, n := range []int64{2, 2000} {
		inBubble(t, func(t *testing.T, g *gate) {
			m := limiter(t, g.locker(t), n, time.Minute)
			if err := m.Allow(t.Context(), "api", distlock.Weight(n)); err != nil {
				t.Fatal(err)
			}
			err := m.Wait(t.Context(), "api", distlock.MaxWait(50*time.Second))
			var limited *distlock.LimitError
			if !errors.As(err, &limited) || limited.Retry < 10*time.Second || limited.Retry > 11*time.Second {
				t.Errorf("limit %d: %v; want to retry in 10s", n, err)
			}
			time.Sleep(11 * time.Second)
			if err := m.Allow(t.Context(), "api"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		})
	}
}

// TestLimiter_shares_unknown ends a wait in an attempt that takes effect and cannot be undone.
func TestLimiter_shares_unknown(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		m := limiter(t, l, 2000, time.Minute)
		if err := m.Allow(t.Context(), "api", distlock.Weight(2000)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				res, err := next(ctx, r)
				if err != nil || !res.Granted {
					return res, err
				}
				cancel()
				return driver.Result{}, ctx.Err()
			}
			g.release = func(context.Context, driver.ID, func() error) error { return errCut }
		})
		wants(t, m.Wait(ctx, "api"), distlock.ErrLimited, distlock.ErrUnknown, context.Canceled)
		g.expect(t, 1, 0)
		time.Sleep(time.Hour)
		g.empty(t, l)
	})
}

func TestLimiter_troubled(t *testing.T) {
	for _, n := range []int64{2, 2000} {
		inBubble(t, func(t *testing.T, g *gate) {
			m := limiter(t, g.locker(t), n, time.Minute)
			g.set(func(g *gate) {
				g.acquire = func(context.Context, driver.Request, acquireFunc) (driver.Result, error) {
					return driver.Result{}, driver.ErrUnavailable
				}
			})
			for _, pass := range []func(context.Context, string, ...distlock.Option) error{m.Allow, m.Wait} {
				err := pass(t.Context(), "api")
				wants(t, err, distlock.ErrUnavailable)
				if errors.Is(err, distlock.ErrLimited) {
					t.Errorf("a store that is unavailable is no limit: %v", err)
				}
			}
		})
	}
}

func TestLimiter_refused(t *testing.T) {
	g := newGate()
	l := g.locker(t, distlock.MinHold(time.Hour), distlock.LockDelay(time.Hour), distlock.MaxHold(time.Second))
	for _, tt := range []struct {
		n      int64
		window time.Duration
	}{{0, time.Second}, {driver.Whole, time.Second}, {1, time.Millisecond}, {1, 25 * time.Hour}} {
		m, err := l.Limiter(tt.n, tt.window)
		wants(t, err, distlock.ErrInvalid)
		if m != nil {
			t.Error("a limiter came with the error")
		}
	}
	m := limiter(t, l, 2, time.Minute)
	wants(t, m.Allow(t.Context(), "api", distlock.Weight(3)), distlock.ErrInvalid)
	wantInvalid(t, m.Allow(t.Context(), ""), "name")
	if err := m.Allow(t.Context(), "api"); err != nil {
		t.Error(err)
	}
	_, err := new(distlock.Locker).Limiter(1, time.Minute)
	wants(t, err, distlock.ErrInvalid)

	for _, change := range []func(f *driver.Features){
		func(f *driver.Features) { f.Count, f.Name = false, "plain" },
		func(f *driver.Features) { f.Expiry, f.Name = false, "plain" },
	} {
		g := newGate()
		g.features = change
		_, err = g.locker(t).Limiter(1, time.Minute)
		wants(t, err, errors.ErrUnsupported)
		if !strings.HasPrefix(fmt.Sprint(err), "distlock: store plain ") {
			t.Errorf("error %v does not name the store", err)
		}
	}
	short := newGate()
	short.features = func(f *driver.Features) { f.MaxTTL = time.Minute }
	if _, err = short.locker(t).Limiter(1, time.Minute); err != nil {
		t.Error(err)
	}
	_, err = short.locker(t).Limiter(1001, time.Minute) // its claims last longer
	wantInvalid(t, err, "TTL")
}
