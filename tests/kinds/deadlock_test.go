package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

func detects(f driver.Features) bool { return f.Queue && f.Value }

// A task is one member of a cycle: the lease that it holds, and the call that it makes under it.
type task struct {
	lease *distlock.Lease
	wants func(ctx context.Context) (*distlock.Lease, error)
}

// meet lets all tasks wait for each other and returns the error of the last task. It checks that
// only the last task gets an error, and that all others get their lease after the last task has
// released its own.
func meet(t *testing.T, tasks []task) *distlock.DeadlockError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
	defer cancel()
	var found *distlock.DeadlockError
	var wg sync.WaitGroup
	formed := testenv.NewStopwatch(t)
	for i, one := range tasks {
		wg.Go(func() {
			lease, err := one.wants(one.lease.Context(ctx))
			switch last := i == len(tasks)-1; {
			case last && !errors.As(err, &found):
				t.Errorf("the youngest task of the cycle got %v, %v", lease, err)
			case last:
				// Tests in virtual time check the bound of 2 s.
				t.Logf("found after %v: %v", formed.Elapsed().Round(time.Millisecond), err)
			case err != nil:
				t.Errorf("task %d: %v", i, err)
			default:
				unlock(t, lease)
			}
			unlock(t, one.lease)
		})
	}
	wg.Wait()
	return found
}

// Three processes wait for each other. The youngest gets an error with the whole cycle within two
// seconds.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	onEach(t, detects, func(t *testing.T, url string) {
		const n = 3
		var lockers []*distlock.Locker
		for i := range n {
			lockers = append(lockers, locker(t, url, distlock.Holder(fmt.Sprint("p", i))))
		}
		var tasks []task
		for i, l := range lockers {
			tasks = append(tasks, task{take(t, l.Lock, fmt.Sprint("k", i)), func(ctx context.Context) (*distlock.Lease, error) {
				return l.Lock(ctx, fmt.Sprint("k", (i+1)%n))
			}})
			time.Sleep(2 * time.Millisecond) // fences follow clocks that count in milliseconds
		}
		found := meet(t, tasks)
		if found == nil || len(found.Cycle) != n {
			t.Fatalf("%v", found)
		}
		for i, p := range found.Cycle {
			at := (n - 1 + i) % n
			if p.Holder != fmt.Sprint("p", at) || len(p.Holds) != 1 ||
				p.Holds[0].Name != fmt.Sprint("k", at) || p.Holds[0].Held < time.Second ||
				p.Waits.Name != fmt.Sprint("k", (at+1)%n) || p.Waits.Held < 900*time.Millisecond {
				t.Errorf("task %d: %+v", i, p)
			}
		}
		nothingLeft(t, url)
	})
}

// A cycle through a semaphore and a queue: the holders of both slots wait for a reader, and a
// queued writer keeps the reader out.
func TestDeadlock_kinds(t *testing.T) {
	t.Parallel()
	onEach(t, func(f driver.Features) bool { return detects(f) && counts(f) }, func(t *testing.T, url string) {
		a, b, c := locker(t, url), locker(t, url), locker(t, url)
		reader := take(t, a.RLock, "x")
		time.Sleep(2 * time.Millisecond)
		first, second := take(t, slots(t, b, 2).Acquire, "s"), take(t, slots(t, c, 2).Acquire, "s")
		time.Sleep(2 * time.Millisecond)
		other := wait(t, b.Lock) // a writer of x, which holds nothing
		inQueue(t, url, "x")
		last := take(t, c.Lock, "y")
		wants := func(take taker, name string) func(context.Context) (*distlock.Lease, error) {
			return func(ctx context.Context) (*distlock.Lease, error) { return take(ctx, name) }
		}
		found := meet(t, []task{
			{reader, wants(slots(t, a, 2).Acquire, "s")},
			{first, wants(b.Lock, "y")},
			{second, wants(c.Lock, "y")},
			{last, wants(c.RLock, "x")},
		})
		if found == nil || len(found.Cycle) != 4 {
			t.Errorf("%v", found)
		}
		unlock(t, granted(t, other))
		nothingLeft(t, url)
	})
}

// On a store without a queue, or without visible claims of others, the calls wait until their
// context ends. Only a call that waits for its own lease gets an error.
func TestDeadlock_notFound(t *testing.T) {
	t.Parallel()
	onEach(t, func(f driver.Features) bool { return !detects(f) }, func(t *testing.T, url string) {
		a, b := locker(t, url), locker(t, url)
		x, y := take(t, a.Lock, "x"), take(t, b.Lock, "y")
		ctx, cancel := context.WithTimeout(x.Context(t.Context()), soon)
		defer cancel()
		if _, err := a.Lock(ctx, "x"); !errors.Is(err, distlock.ErrDeadlock) {
			t.Errorf("a lock within itself: %v", err)
		}
		ctx, cancel = context.WithTimeout(x.Context(t.Context()), 2500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			lease, err := steady(b.Lock)(y.Context(t.Context()), "x")
			if err != nil {
				t.Error(err)
				return
			}
			unlock(t, lease, y)
		})
		_, err := steady(a.Lock)(ctx, "y")
		if !errors.Is(err, distlock.ErrHeld) && !slow(err) ||
			!errors.Is(err, context.DeadlineExceeded) || errors.Is(err, distlock.ErrDeadlock) {
			t.Errorf("%v", err)
		}
		unlock(t, x)
		wg.Wait()
	})
}

type taker = func(ctx context.Context, name string, opts ...distlock.Option) (*distlock.Lease, error)

// steady repeats a call while the store is unavailable or does not answer. On a busy machine, all
// nodes of a majority may be slow for a moment, and the first attempt of a call returns that error
// at once.
func steady[Name, Held any](
	take func(context.Context, Name, ...distlock.Option) (Held, error),
) func(context.Context, Name, ...distlock.Option) (Held, error) {
	return func(ctx context.Context, name Name, opts ...distlock.Option) (Held, error) {
		for {
			held, err := take(ctx, name, opts...)
			if !slow(err) || ctx.Err() != nil {
				return held, err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// slow reports whether the store was unavailable or did not answer.
func slow(err error) bool {
	return errors.Is(err, distlock.ErrUnavailable) || errors.Is(err, distlock.ErrUnknown)
}

// take acquires a free name.
func take(t *testing.T, take taker, name string) *distlock.Lease {
	t.Helper()
	lease, err := steady(take)(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// inQueue waits until the queue of a key has a waiter.
func inQueue(t *testing.T, url, key string) {
	t.Helper()
	s := store(t, url)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		claims, err := driver.Show(t.Context(), s, key)
		if err == nil && slices.ContainsFunc(claims, func(c driver.Claim) bool { return c.Waiting }) {
			return
		}
		if time.Since(began) > soon {
			t.Fatalf("no waiter in the queue: %v, %v", claims, err)
		}
	}
}

// nothingLeft waits until the store has no claim and no deadlock notice. A claim that was never
// released would expire only after this wait, so nothingLeft finds it.
func nothingLeft(t *testing.T, url string) {
	t.Helper()
	s := store(t, url)
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var left []any
		for c, err := range driver.List(t.Context(), s, "") {
			if left = append(left, c, err); err != nil {
				break
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Since(began) > soon {
			t.Errorf("left: %+v", left)
			return
		}
	}
}
