package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// slots returns a semaphore.
func slots(t *testing.T, l *distlock.Locker, n int64) *distlock.Semaphore {
	t.Helper()
	s, err := l.Semaphore(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSemaphore_Acquire(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		here, there := slots(t, a, 3), slots(t, b, 3)
		ctx := t.Context()
		one := must(t)(here.Acquire(ctx, "gpu"))
		two := must(t)(there.Acquire(ctx, "gpu", distlock.Weight(2)))
		if one.Mode() != distlock.ModeCounted {
			t.Errorf("mode %v", one.Mode())
		}
		_, err := there.TryAcquire(ctx, "gpu")
		wants(t, err, distlock.ErrHeld)

		many := begin(ctx, here.Acquire, "gpu", distlock.Weight(3)).waits(t)
		few := begin(ctx, there.Acquire, "gpu").waits(t)
		free(t, one)
		many.waits(t)
		few.waits(t) // there are free slots, and no call passes a waiter
		free(t, two)
		whole := many.now(t)
		few.waits(t)
		free(t, must(t)(a.TryLock(ctx, "gpu"))) // another key
		free(t, whole)
		free(t, few.now(t))
		g.empty(t, a, b)
	})
}

func TestSemaphore_Acquire_together(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		s, far := slots(t, a, 3), slots(t, b, 3)
		first := must(t)(far.Acquire(t.Context(), "gpu", distlock.Weight(3)))
		var calls []*call
		for range 4 {
			calls = append(calls, begin(t.Context(), s.Acquire, "gpu").waits(t))
		}
		free(t, first)
		synctest.Wait()
		for _, c := range calls[:3] {
			c.now(t)
		}
		calls[3].waits(t)
		free(t, calls[1].lease)
		calls[3].now(t)
		for _, i := range []int{0, 2, 3} {
			free(t, calls[i].lease)
		}
		g.empty(t, a, b)
	})
}

func TestSemaphore_holderDies(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		dead, l := g.locker(t, distlock.TTL(10*time.Second), distlock.NoRenewal()), g.locker(t)
		lease := must(t)(slots(t, dead, 2).Acquire(t.Context(), "gpu", distlock.Weight(2)))
		next := begin(t.Context(), slots(t, l, 2).Acquire, "gpu")
		free(t, next.granted(t))
		next.within(t, 10*time.Second, 10*time.Second+10*time.Millisecond)
		wants(t, lease.Unlock(t.Context()), distlock.ErrLost)
		g.empty(t, dead, l)
	})
}

func TestSemaphore_Resize(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		s, far := slots(t, a, 1), slots(t, b, 1)
		ctx := t.Context()
		leases := []*distlock.Lease{must(t)(far.Acquire(ctx, "gpu"))}
		one, two := begin(ctx, s.Acquire, "gpu").waits(t), begin(ctx, s.Acquire, "gpu").waits(t)

		if err := s.Resize(3); err != nil {
			t.Fatal(err)
		}
		leases = append(leases, one.now(t), two.now(t)) // waiters are granted at once
		if s.Size() != 3 {
			t.Errorf("size %d", s.Size())
		}

		if err := s.Resize(2); err != nil {
			t.Fatal(err)
		}
		next := begin(ctx, s.Acquire, "gpu").waits(t)
		free(t, leases[0])
		next.waits(t) // two are left, of two
		free(t, leases[1])
		free(t, next.now(t))
		free(t, leases[2])
		g.empty(t, a, b)
	})
}

func TestSemaphore_Resize_keepsTheEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		s, far := slots(t, a, 1), slots(t, b, 1)
		first := must(t)(far.Acquire(t.Context(), "gpu"))
		one := begin(t.Context(), s.Acquire, "gpu").waits(t)
		two := begin(t.Context(), far.Acquire, "gpu").waits(t)
		releases := g.count("release")
		if err := s.Resize(2); err != nil {
			t.Fatal(err)
		}
		lease := one.now(t)
		two.waits(t)
		if n := g.count("release"); n != releases {
			t.Error("the queue entry was released")
		}
		free(t, lease)
		two.waits(t)
		free(t, first)
		free(t, two.now(t))
		g.empty(t, a, b)
	})
}

// One call waits since before a resize, another one since after it. When the first call leaves, the
// other one gets its queue entry.
func TestSemaphore_Resize_passesTheEntryOn(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		s, far := slots(t, a, 2), slots(t, b, 3)
		first := must(t)(far.Acquire(t.Context(), "gpu", distlock.Weight(2)))
		ctx, cancel := context.WithCancel(t.Context())
		leaves := begin(ctx, s.Acquire, "gpu", distlock.Weight(2)).waits(t)
		behind := begin(t.Context(), far.Acquire, "gpu", distlock.Weight(2)).waits(t)
		if err := s.Resize(3); err != nil {
			t.Fatal(err)
		}
		heir := begin(t.Context(), s.Acquire, "gpu", distlock.Weight(2)).waits(t)
		cancel()
		leaves.refused(t, context.Canceled)
		free(t, first)
		lease := heir.now(t)
		behind.waits(t)
		free(t, lease)
		free(t, behind.now(t))
		g.empty(t, a, b)
	})
}

func TestSemaphore_Resize_tooSmall(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		s := slots(t, l, 3)
		first := must(t)(s.Acquire(t.Context(), "gpu"))
		many := begin(t.Context(), s.Acquire, "gpu", distlock.Weight(3), distlock.MaxWait(time.Hour)).waits(t)
		few := begin(t.Context(), s.Acquire, "gpu", distlock.MaxWait(time.Hour)).waits(t)
		if err := s.Resize(2); err != nil {
			t.Fatal(err)
		}
		var op *distlock.OpError
		if err := many.refused(t, distlock.ErrInvalid); errors.As(err, &op) {
			t.Errorf("%v: an attempt with a weight over the limit", err)
		}
		free(t, few.now(t))
		_, err := s.Acquire(t.Context(), "gpu", distlock.Weight(3))
		wants(t, err, distlock.ErrInvalid)
		free(t, first)
		g.empty(t, l)
	})
}

// A resize ends every waiting call whose weight is too large, wherever it is in the queue.
func TestSemaphore_Resize_tooSmallBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		s, other := slots(t, a, 5), slots(t, a, 5) // two semaphores of one process
		first := must(t)(slots(t, b, 5).Acquire(t.Context(), "gpu", distlock.Weight(5)))
		few := begin(t.Context(), s.Acquire, "gpu").waits(t)
		many := begin(t.Context(), s.Acquire, "gpu", distlock.Weight(5), distlock.MaxWait(time.Hour)).waits(t)
		fits := begin(t.Context(), s.Acquire, "gpu", distlock.Weight(3)).waits(t)
		more := begin(t.Context(), s.Acquire, "gpu", distlock.Weight(4), distlock.MaxWait(time.Hour)).waits(t)
		apart := begin(t.Context(), other.Acquire, "gpu", distlock.Weight(5)).waits(t)
		if err := s.Resize(3); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		many.refused(t, distlock.ErrInvalid)
		more.refused(t, distlock.ErrInvalid)
		few.waits(t)
		fits.waits(t)
		apart.waits(t)
		free(t, first)
		free(t, few.now(t))
		free(t, fits.now(t))
		free(t, apart.now(t))
		g.empty(t, a, b)
	})
}

// A resize may come after a call has been refused and before it is in the queue.
func TestSemaphore_Resize_onTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		s := slots(t, l, 3)
		first := must(t)(s.Acquire(t.Context(), "gpu"))
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				res, err := next(ctx, r)
				return res, errors.Join(err, s.Resize(2))
			}
		})
		_, err := s.Acquire(t.Context(), "gpu", distlock.Weight(3), distlock.MaxWait(time.Hour))
		wants(t, err, distlock.ErrInvalid)
		if n := g.count("acquire"); n != 2 {
			t.Errorf("%d attempts: one of them with a weight over the limit", n)
		}
		free(t, first)
		g.empty(t, l)
	})
}

// A waiting call is granted or refused, however often the size changes meanwhile.
func TestSemaphore_Resize_toAndFro(t *testing.T) {
	g := newGate()
	l := g.locker(t)
	s := slots(t, l, 2)
	first := must(t)(s.Acquire(t.Context(), "gpu"))
	done := make(chan struct{})
	var resizing, calling sync.WaitGroup
	for range 2 {
		resizing.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-done:
					return
				default:
					_ = s.Resize(1 + i%2)
				}
			}
		})
	}
	for range 8 {
		calling.Go(func() {
			for range 2000 {
				lease, err := s.Acquire(t.Context(), "gpu", distlock.Weight(2))
				if err == nil {
					free(t, lease)
					t.Error("two slots were granted while one of two was held")
				}
				if !errors.Is(err, distlock.ErrInvalid) {
					t.Errorf("error %v, want ErrInvalid", err)
				}
			}
		})
	}
	calling.Wait()
	close(done)
	resizing.Wait()
	free(t, first)
	g.empty(t, l)
}

func TestSemaphore_Do(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		s := slots(t, l, 1)
		why := errors.New("why")
		err := s.Do(t.Context(), "gpu", func(ctx context.Context) error {
			if distlock.FromContext(ctx).Name() != "gpu" {
				t.Error("the lease is not in the context")
			}
			g.expect(t, 1, 0)
			return why
		})
		wants(t, err, why)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = s.Do(ended, "gpu", func(context.Context) error { t.Error("it ran"); return nil })
		wants(t, err, context.Canceled)
		g.empty(t, l)
	})
}

func TestSemaphore_refused(t *testing.T) {
	g := newGate()
	l := g.locker(t)
	for _, n := range []int64{-1, 0, driver.Whole} {
		_, err := l.Semaphore(n)
		wants(t, err, distlock.ErrInvalid)
		wants(t, slots(t, l, 1).Resize(n), distlock.ErrInvalid)
		_, err = slots(t, l, 1).Acquire(t.Context(), "gpu", distlock.Weight(n))
		wants(t, err, distlock.ErrInvalid)
	}
	_, err := slots(t, l, 1).Acquire(t.Context(), "")
	wantInvalid(t, err, "name")
	for i, lock := range []takeFunc{l.Lock, l.TryLock, l.RLock, l.TryRLock} {
		_, err = lock(t.Context(), fmt.Sprint("x", i), distlock.Weight(1))
		wants(t, err, distlock.ErrInvalid)
	}
	_, err = new(distlock.Locker).Semaphore(1)
	wants(t, err, distlock.ErrInvalid)

	g.features = func(f *driver.Features) { f.Count, f.Name = false, "plain" }
	_, err = g.locker(t).Semaphore(1)
	wants(t, err, errors.ErrUnsupported)
	if want := "distlock: store plain does not count, as Semaphore needs: unsupported operation"; fmt.Sprint(err) != want {
		t.Errorf("error %v", err)
	}
}
