package distlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// A call that would wait for a lease of its own context fails at once, without a call of the store.
func TestLocker_reentry(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l, other := g.locker(t, distlock.Holder("me")), g.locker(t)
		sem, err := l.Semaphore(3)
		if err != nil {
			t.Fatal(err)
		}
		once, err := distlock.NewOnce[int](l, time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		writes := must(t)(l.Lock(t.Context(), "x"))
		time.Sleep(time.Second)
		// The outer lease counts too, not only the innermost one.
		ctx := must(t)(l.Lock(writes.Context(t.Context()), "inner")).Context(writes.Context(t.Context()))
		slots := must(t)(sem.Acquire(ctx, "s", distlock.Weight(2)))
		ctx = slots.Context(slots.Context(ctx)) // a lease counts once, however many contexts it has

		try := func(f func(ctx context.Context) error) func() error { return func() error { return f(ctx) } }
		took := func(take takeFunc, name string, opts ...distlock.Option) func() error {
			return try(func(ctx context.Context) error { _, err := take(ctx, name, opts...); return err })
		}
		all := func(l *distlock.Locker, names ...string) func() error {
			return try(func(ctx context.Context) error { _, err := l.LockAll(ctx, names); return err })
		}
		for name, call := range map[string]func() error{
			"Lock":           took(l.Lock, "x"),
			"Lock, bounded":  took(l.Lock, "x", distlock.MaxWait(time.Minute)),
			"Lock, another":  took(other.Lock, "x"),
			"RLock":          took(l.RLock, "x"),
			"LockAll":        all(l, "a", "x"),
			"Acquire":        took(sem.Acquire, "s", distlock.Weight(2)),
			"Do":             try(func(ctx context.Context) error { return l.Do(ctx, "x", func(context.Context) error { return nil }) }),
			"the middle one": took(l.Lock, "inner"),
		} {
			g.reset()
			began := time.Now()
			err := call()
			wants(t, err, distlock.ErrDeadlock, distlock.ErrHeld)
			if d := time.Since(began); d != 0 || g.count("acquire") != 0 {
				t.Errorf("%s: returned after %v and %s", name, d, g.total())
			}
			var deadlock *distlock.DeadlockError
			if !errors.As(err, &deadlock) || len(deadlock.Cycle) != 1 ||
				len(deadlock.Cycle[0].Holds) != 1 || deadlock.Cycle[0].Holds[0].Name != deadlock.Name ||
				deadlock.Cycle[0].Holds[0].Fence == 0 || !strings.HasSuffix(err.Error(), "it waits for itself") {
				t.Errorf("%s: %v", name, err)
			}
		}
		var deadlock *distlock.DeadlockError
		if errors.As(took(l.Lock, "x")(), &deadlock) && deadlock.Cycle[0].Holds[0].Held != time.Second {
			t.Errorf("held for %v", deadlock.Cycle[0].Holds[0].Held)
		}
		_, err = once.Do(ctx, "o", func(ctx context.Context) (int, error) {
			return once.Do(ctx, "o", func(context.Context) (int, error) { return 1, nil })
		})
		wants(t, err, distlock.ErrDeadlock)

		// A call that would not wait for its own lease gets no ErrDeadlock.
		wants(t, took(l.TryLock, "x")(), distlock.ErrHeld)
		if err := took(l.TryLock, "x")(); errors.Is(err, distlock.ErrDeadlock) {
			t.Error(err)
		}
		free(t, must(t)(sem.Acquire(ctx, "s")))
		free(t, must(t)(l.Lock(ctx, "y")))
	})
}

// Reentry is not reported for readers, ended leases and other stores.
func TestLocker_reentry_isNone(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		reads := must(t)(l.RLock(t.Context(), "x"))
		free(t, must(t)(l.RLock(reads.Context(t.Context()), "x")))
		wants(t, func() error { _, err := l.Lock(reads.Context(t.Context()), "x"); return err }(), distlock.ErrUpgrade)
		free(t, reads)

		// A lease that has ended blocks no call.
		was := must(t)(l.Lock(t.Context(), "x"))
		ctx := context.WithoutCancel(was.Context(t.Context()))
		free(t, was)
		free(t, must(t)(l.Lock(ctx, "x")))

		// The same name in another store is another lock.
		far, err := distlock.New(mem.New())
		if err != nil {
			t.Fatal(err)
		}
		lease := must(t)(l.Lock(t.Context(), "x"))
		free(t, must(t)(far.Lock(lease.Context(t.Context()), "x")))
		free(t, lease)
		g.empty(t, l)
		if err := far.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The refusal is an event like any other.
func TestLocker_reentry_event(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var refused order
		l := g.locker(t, distlock.Observe(func(_ context.Context, e distlock.Event) {
			if e.Type == distlock.EventRefused {
				refused.add("%s %v", e.Name, errors.Is(e.Err, distlock.ErrDeadlock))
			}
		}))
		lease := must(t)(l.Lock(t.Context(), "x"))
		_, err := l.Lock(lease.Context(t.Context()), "x")
		wants(t, err, distlock.ErrDeadlock)
		if refused.String() != "x true" {
			t.Errorf("refused events %q", refused.String())
		}
		free(t, lease)
	})
}
