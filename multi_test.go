package distlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// all returns the leases, and fails if there is an error.
func all(t *testing.T) func(*distlock.Leases, error) *distlock.Leases {
	t.Helper()
	return func(s *distlock.Leases, err error) *distlock.Leases {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// keys records the keys that are acquired and released, in order.
func (g *gate) keys(calls *order) {
	g.set(func(g *gate) {
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			calls.add("+%s", r.Key)
			return next(ctx, r)
		}
		g.release = func(_ context.Context, id driver.ID, next func() error) error {
			calls.add("-%s", id.Key)
			return next()
		}
	})
}

func TestLocker_LockAll(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		var calls order
		g.keys(&calls)
		names := []string{"c", "a", "b", "a"}
		s := all(t)(l.LockAll(t.Context(), names))
		if !slices.Equal(names, []string{"c", "a", "b", "a"}) {
			t.Errorf("the caller's names became %v", names)
		}
		var got []string
		for lease := range s.All() {
			got = append(got, lease.Name())
			if s.Lease(lease.Name()) != lease || lease.Fence() == 0 || lease.Mode() != distlock.ModeExclusive {
				t.Errorf("%v is not the exclusive lease of %q", lease, lease.Name())
			}
		}
		if !slices.Equal(got, []string{"a", "b", "c"}) || s.Lease("d") != nil {
			t.Errorf("leases of %v", got)
		}
		time.Sleep(time.Hour)
		if s.Err() != nil || !s.Valid(time.Second) {
			t.Error("they were not kept")
		}
		for range 2 {
			if err := s.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got, want := calls.String(), "+a +b +c -c -b -a"; got != want {
			t.Errorf("calls %q, want %q", got, want)
		}
		wants(t, s.Err(), distlock.ErrReleased)
		if s.Valid(0) {
			t.Error("valid after Unlock")
		}
		g.empty(t, l)
	})
}

func TestLocker_LockAll_allOrNothing(t *testing.T) {
	tests := []struct {
		name string
		take func(l *distlock.Locker, ctx context.Context) (*distlock.Leases, error)
		want error
		took time.Duration
	}{
		{"try", func(l *distlock.Locker, ctx context.Context) (*distlock.Leases, error) {
			return l.TryLockAll(ctx, []string{"a", "b", "c"})
		}, distlock.ErrHeld, 0},
		{"wait", func(l *distlock.Locker, ctx context.Context) (*distlock.Leases, error) {
			return l.LockAll(ctx, []string{"a", "b", "c"}, distlock.MaxWait(3*time.Second))
		}, context.DeadlineExceeded, 3 * time.Second},
		{"context", func(l *distlock.Locker, ctx context.Context) (*distlock.Leases, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			return l.LockAll(ctx, []string{"a", "b", "c"})
		}, context.DeadlineExceeded, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				a, b := g.locker(t), g.locker(t)
				other := must(t)(b.Lock(t.Context(), "c"))
				began := time.Now()
				s, err := tt.take(a, t.Context())
				wants(t, err, distlock.ErrHeld, tt.want)
				if s != nil || time.Since(began) != tt.took {
					t.Errorf("%v after %v, want %v", s, time.Since(began), tt.took)
				}
				g.expect(t, 1, 0)
				free(t, other)
				g.empty(t, a, b)
			})
		})
	}
}

// MaxWait bounds the waits for all names together.
func TestLocker_LockAll_wait(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		one, two := must(t)(b.Lock(t.Context(), "a")), must(t)(b.Lock(t.Context(), "b"))
		time.AfterFunc(2*time.Second, func() { free(t, one) })
		began := time.Now()
		_, err := a.LockAll(t.Context(), []string{"a", "b"}, distlock.MaxWait(3*time.Second))
		wants(t, err, distlock.ErrHeld)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		free(t, two)
		g.empty(t, a, b)
	})
}

func TestLocker_LockAll_lostWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t, distlock.TTL(10*time.Second)), g.locker(t)
		other := must(t)(b.Lock(t.Context(), "b"))
		time.AfterFunc(5*time.Second, func() { _, _ = g.Break(context.Background(), "a", 0, "test") })
		s, err := a.LockAll(t.Context(), []string{"a", "b"}, distlock.MaxWait(time.Hour))
		wants(t, err, distlock.ErrLost)
		if s != nil {
			t.Error("leases came with the error")
		}
		g.expect(t, 1, 0)
		free(t, other)
		g.empty(t, a, b)
	})
}

func TestLeases_lost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		s := all(t)(l.LockAll(t.Context(), []string{"a", "b", "c"}))
		ctx, done := s.Context(t.Context()), s.Done()
		select {
		case <-done:
			t.Error("done while held")
		default:
		}
		_, _ = g.Break(t.Context(), "b", 0, "test")
		<-done
		wants(t, s.Err(), distlock.ErrLost)
		<-ctx.Done() // each lease is reported on its own
		wants(t, context.Cause(ctx), distlock.ErrLost)
		if s.Valid(0) || s.Lease("a").Err() != nil {
			t.Error("one is lost, and the others are held")
		}
		wants(t, s.Unlock(t.Context()), distlock.ErrLost)
		g.empty(t, l)
	})
}

func TestLocker_LockAll_refused(t *testing.T) {
	g := newGate()
	l := g.locker(t)
	_, err := l.LockAll(t.Context(), nil)
	wants(t, err, distlock.ErrInvalid)
	_, err = l.LockAll(t.Context(), []string{"a", ""})
	wantInvalid(t, err, "name")
	_, err = l.LockAll(t.Context(), []string{"a"}, distlock.TTL(0))
	wantInvalid(t, err, "TTL")
	if n := g.count("acquire"); n != 0 {
		t.Errorf("the store was called %d times", n)
	}
	s := all(t)(l.LockAll(t.Context(), []string{"a"}))
	var none context.Context
	wants(t, s.Unlock(none), distlock.ErrInvalid)
	if err := s.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = l.LockAll(t.Context(), []string{"a"})
	wants(t, err, distlock.ErrClosed)
}

// TestLocker_LockAll_noDeadlock lets processes lock any names in any order. Some of them would wait
// for each other for ever if LockAll acquired the names in the order of its argument.
func TestLocker_LockAll_noDeadlock(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.bubble = true
			rng := rand.New(rand.NewPCG(seed, 11))
			names := []string{"a", "b", "c", "d", "e"}
			var mu sync.Mutex
			holder, fences := map[string]int{}, map[string]uint64{}
			lockers := []*distlock.Locker{g.locker(t), g.locker(t), g.locker(t)}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the work takes seconds
			defer cancel()
			var wg sync.WaitGroup
			for i := range 9 {
				mine := rand.New(rand.NewPCG(rng.Uint64(), 1))
				wg.Go(func() {
					for range 10 {
						want := slices.Clone(names)
						mine.Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
						s, err := lockers[i%3].LockAll(ctx, want[:2+mine.IntN(3)])
						if err != nil {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
						mu.Lock()
						for lease := range s.All() {
							if holder[lease.Name()] != 0 || lease.Fence() <= fences[lease.Name()] {
								t.Errorf("seed %d: %v, but %d holds it with fence %d", seed, lease, holder[lease.Name()], fences[lease.Name()])
							}
							holder[lease.Name()], fences[lease.Name()] = i+1, lease.Fence()
						}
						mu.Unlock()
						time.Sleep(time.Duration(mine.IntN(20)) * time.Millisecond)
						mu.Lock()
						for lease := range s.All() {
							holder[lease.Name()] = 0
						}
						mu.Unlock()
						if err := s.Unlock(ctx); err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
					}
				})
			}
			wg.Wait()
			g.empty(t, lockers...)
		})
	}
}

// A LockAll that fails leaves nothing behind, also with MinHold.
func TestLocker_LockAll_minHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l, other := lockerOn(t, w), lockerOn(t, w)
		taken(t, other, "b")
		_, err := l.TryLockAll(t.Context(), []string{"a", "b"}, distlock.MinHold(time.Hour))
		wants(t, err, distlock.ErrHeld, distlock.ErrNotAcquired)
		if errors.Is(err, distlock.ErrUnknown) {
			t.Error(err)
		}
		taken(t, other, "a")
	})
}
