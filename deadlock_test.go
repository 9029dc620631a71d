package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// A step is the lock that one task of a planned deadlock holds, and the lock that it wants under
// the first.
type step struct {
	has, wants func(ctx context.Context) (*distlock.Lease, error)
}

// lock returns a call of a Locker for one name.
func lock(take takeFunc, name string, opts ...distlock.Option) func(context.Context) (*distlock.Lease, error) {
	return func(ctx context.Context) (*distlock.Lease, error) { return take(ctx, name, opts...) }
}

// A knot is a deadlock: one call for each task, and the lease under which the call waits.
type knot struct {
	leases []*distlock.Lease
	calls  []*call
	formed time.Time // when the last call began to wait
}

// under returns a context for a call under a lease. It ends after an hour, when the test has
// failed.
func under(t *testing.T, lease *distlock.Lease) context.Context {
	ctx, cancel := context.WithTimeout(lease.Context(t.Context()), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// tie lets every task acquire its first lock, then wait for its second one. It pauses between the
// waits. They begin in the given order; without one, in the order of the steps.
func tie(t *testing.T, steps []step, pause func() time.Duration, order ...int) *knot {
	t.Helper()
	k := &knot{calls: make([]*call, len(steps))}
	for _, s := range steps {
		k.leases = append(k.leases, must(t)(s.has(t.Context())))
		time.Sleep(time.Millisecond) // fences follow the clock
	}
	for i := range steps {
		if len(order) > 0 {
			i = order[i]
		}
		time.Sleep(pause())
		take := func(ctx context.Context, _ string, _ ...distlock.Option) (*distlock.Lease, error) {
			return steps[i].wants(ctx)
		}
		k.calls[i] = begin(under(t, k.leases[i]), take, "").waits(t)
		k.formed = time.Now()
	}
	return k
}

// untie waits for the victim's error, and checks that it came in time and that no other task got
// one. Then it releases the victim's lock, so that all others continue. It returns the victim's
// error.
func (k *knot) untie(t *testing.T, victim int) *distlock.DeadlockError {
	t.Helper()
	<-k.calls[victim].done
	if took := time.Since(k.formed); took > 2*time.Second {
		t.Errorf("reported %v after the deadlock had formed", took)
	}
	err := k.calls[victim].refused(t, distlock.ErrDeadlock)
	var deadlock *distlock.DeadlockError
	if !errors.As(err, &deadlock) || errors.Is(err, distlock.ErrHeld) || !errors.Is(deadlock.Err, distlock.ErrHeld) {
		t.Fatalf("%T: %v", err, err)
	}
	// No other task gets an error, however long the victim keeps its lock.
	time.Sleep(5 * time.Second)
	for i, c := range k.calls {
		if i != victim {
			c.waits(t)
		}
	}
	free(t, k.leases[victim])
	k.leases[victim] = nil
	k.settle(t)
	return deadlock
}

// settle releases all locks of each task that got its second lock, until no task waits.
func (k *knot) settle(t *testing.T) {
	t.Helper()
	for again := true; again; {
		again = false
		for i, c := range k.calls {
			if k.leases[i] != nil && c.returned() {
				free(t, must(t)(c.lease, c.err))
				free(t, k.leases[i])
				k.leases[i], again = nil, true
			}
		}
	}
	for i, c := range k.calls {
		if k.leases[i] != nil {
			c.waits(t)
			t.Fatalf("task %d still waits", i)
		}
	}
}

// none is a pause of no time.
func none() time.Duration { return 0 }

// ring returns the steps of a deadlock of n tasks. Each has its own Locker, or all share one.
func ring(t *testing.T, g *gate, n int, one bool) []step {
	t.Helper()
	var steps []step
	l := g.locker(t, distlock.Holder("all"))
	for i := range n {
		if !one {
			l = g.locker(t, distlock.Holder(fmt.Sprint("p", i)))
		}
		steps = append(steps, step{lock(l.Lock, fmt.Sprint("k", i)), lock(l.Lock, fmt.Sprint("k", (i+1)%n))})
	}
	return steps
}

func TestDeadlock(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for _, one := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d tasks, one process %v", n, one), func(t *testing.T) {
				inBubble(t, func(t *testing.T, g *gate) {
					k := tie(t, ring(t, g, n, one), none)
					deadlock := k.untie(t, n-1)
					if len(deadlock.Cycle) != n || deadlock.Name != "k0" {
						t.Fatalf("%s: %+v", deadlock.Name, deadlock.Cycle)
					}
					for i, p := range deadlock.Cycle {
						at := (n - 1 + i) % n
						has, wants := fmt.Sprint("k", at), fmt.Sprint("k", (at+1)%n)
						if len(p.Holds) != 1 || p.Holds[0].Name != has || p.Waits.Name != wants || !p.Waits.Waiting ||
							p.Holds[0].Held < time.Second || p.Waits.Held < time.Second || p.Holds[0].Fence == 0 {
							t.Errorf("task %d: %+v", i, p)
						}
						if !one && (p.Holder != fmt.Sprint("p", at) || p.Holds[0].Holder != p.Holder) {
							t.Errorf("task %d is %s, and holds as %s", i, p.Holder, p.Holds[0].Holder)
						}
					}
					g.empty(t)
				})
			})
		}
	}
}

// Exactly one task gets the error: the one with the highest fence. The order in which the leases
// were acquired and the waits began does not matter.
func TestDeadlock_oneVictim(t *testing.T) {
	for seed := range uint64(300) {
		inBubble(t, func(t *testing.T, g *gate) {
			rng := rand.New(rand.NewPCG(seed, 1))
			n := 2 + rng.IntN(4)
			steps := ring(t, g, n, rng.IntN(2) == 0)
			rng.Shuffle(n, func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			k := tie(t, steps, func() time.Duration { return time.Duration(rng.Int64N(int64(3 * time.Second))) }, rng.Perm(n)...)
			k.untie(t, n-1)
			g.empty(t)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// If the fences are equal, the names decide.
func TestDeadlock_sameFences(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		k := &knot{leases: []*distlock.Lease{must(t)(a.Lock(t.Context(), "a")), must(t)(b.Lock(t.Context(), "b"))}}
		if k.leases[0].Fence() != k.leases[1].Fence() {
			t.Fatal("the fences differ")
		}
		k.calls = []*call{begin(under(t, k.leases[0]), a.Lock, "b"), begin(under(t, k.leases[1]), b.Lock, "a")}
		k.formed = time.Now()
		k.untie(t, 1)
		g.empty(t, a, b)
	})
}

func TestDeadlock_readersAndWriters(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b, c := g.locker(t), g.locker(t), g.locker(t)
		other := must(t)(c.RLock(t.Context(), "x")) // it blocks the writer too, and waits for no lock
		time.Sleep(time.Millisecond)
		k := tie(t, []step{
			{lock(a.RLock, "x"), lock(a.RLock, "y")},
			{lock(b.Lock, "y"), lock(b.Lock, "x")},
		}, none)
		victim := k.calls[1]
		<-victim.done
		wants(t, victim.err, distlock.ErrDeadlock)
		free(t, other)
		k.untie(t, 1)
		g.empty(t, a, b, c)
	})
}

// A reader waits behind a writer in the queue. The writer waits for another reader, and that one
// waits for the first: the queue closes the cycle.
func TestDeadlock_queue(t *testing.T) {
	for _, near := range []bool{false, true} { // whether the writer between them is of the same process
		inBubble(t, func(t *testing.T, g *gate) {
			a, b, c := g.locker(t), g.locker(t), g.locker(t)
			if near {
				c = b
			}
			reads := must(t)(a.RLock(t.Context(), "x"))
			time.Sleep(time.Millisecond)
			has := must(t)(b.Lock(t.Context(), "y"))
			writer := begin(t.Context(), c.Lock, "x").waits(t)
			second := begin(under(t, has), b.RLock, "x").waits(t)
			first := begin(under(t, reads), a.Lock, "y").waits(t)
			formed := time.Now()
			second.refused(t, distlock.ErrDeadlock)
			if took := time.Since(formed); took > 2*time.Second {
				t.Errorf("reported after %v", took)
			}
			free(t, has)
			free(t, first.granted(t))
			free(t, reads)
			free(t, writer.granted(t))
			g.empty(t, a, b, c)
		})
	}
}

// A reader that calls RLock for the same name again waits for itself if a writer waits in between.
func TestDeadlock_readerBehindWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		outer := must(t)(a.RLock(t.Context(), "x"))
		writer := begin(t.Context(), b.Lock, "x").waits(t)
		inner := begin(under(t, outer), a.RLock, "x").waits(t)
		err := inner.refused(t, distlock.ErrDeadlock)
		inner.within(t, time.Second, 2*time.Second)
		if !strings.Contains(err.Error(), "it waits for itself") {
			t.Error(err)
		}
		free(t, outer)
		free(t, writer.granted(t))
		g.empty(t, a, b)
	})
}

func TestDeadlock_semaphore(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b, c := g.locker(t), g.locker(t), g.locker(t)
		sem := func(l *distlock.Locker) *distlock.Semaphore {
			s, err := l.Semaphore(2)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		k := tie(t, []step{
			{lock(sem(a).Acquire, "s"), lock(a.Lock, "x")},
			{lock(sem(b).Acquire, "s"), lock(b.Lock, "x")},
			{lock(c.Lock, "x"), lock(sem(c).Acquire, "s")},
		}, none)
		deadlock := k.untie(t, 2)
		if len(deadlock.Cycle) != 3 || deadlock.Cycle[0].Waits.Kind != "sem" {
			t.Errorf("%+v", deadlock.Cycle)
		}
		g.empty(t, a, b, c)
	})
}

// There is no deadlock while a task that can continue holds one of the slots. There is one when
// that task waits too.
func TestDeadlock_noKnot(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b, c := g.locker(t), g.locker(t), g.locker(t)
		s, err := c.Semaphore(2)
		if err != nil {
			t.Fatal(err)
		}
		outside := must(t)(s.Acquire(t.Context(), "s"))
		time.Sleep(time.Millisecond)
		k := tie(t, []step{
			{lock(s.Acquire, "s"), lock(a.Lock, "x")},
			{lock(b.Lock, "x"), lock(s.Acquire, "s")},
		}, none)
		time.Sleep(time.Minute)
		k.calls[0].waits(t)
		k.calls[1].waits(t)

		joins := begin(under(t, outside), c.Lock, "x").waits(t)
		k.formed = time.Now()
		<-k.calls[1].done
		wants(t, k.calls[1].err, distlock.ErrDeadlock)
		if took := time.Since(k.formed); took > 2*time.Second {
			t.Errorf("reported after %v", took)
		}
		free(t, k.leases[1])
		free(t, k.calls[0].granted(t))
		free(t, joins.granted(t))
		free(t, k.leases[0])
		free(t, outside)
		g.empty(t, a, b, c)
	})
}

// A cycle that exists only because of another one is not reported: it may open when the other one
// does.
func TestDeadlock_behindAnother(t *testing.T) {
	for phase := range 8 { // which detector looks first
		inBubble(t, func(t *testing.T, g *gate) {
			a, b, c, d := g.locker(t), g.locker(t), g.locker(t), g.locker(t)
			s, err := a.Semaphore(2)
			if err != nil {
				t.Fatal(err)
			}
			slot := must(t)(s.Acquire(t.Context(), "s"))
			inner := must(t)(c.Lock(slot.Context(t.Context()), "inner"))
			time.Sleep(time.Millisecond)
			last := must(t)(d.Lock(t.Context(), "y"))
			k := tie(t, []step{{lock(s.Acquire, "s"), lock(a.Lock, "x")}, {lock(b.Lock, "x"), lock(s.Acquire, "s")}}, none)
			time.Sleep(time.Duration(phase) * 50 * time.Millisecond)
			second := begin(under(t, last), d.Lock, "inner").waits(t)
			time.Sleep(5 * time.Second)
			ctx, cancel := context.WithTimeout(inner.Context(slot.Context(t.Context())), time.Hour)
			defer cancel()
			first := begin(ctx, c.Lock, "y").waits(t)

			second.refused(t, distlock.ErrDeadlock)
			time.Sleep(time.Minute)
			k.calls[0].waits(t)
			k.calls[1].waits(t)
			free(t, last)
			free(t, first.now(t))
			free(t, inner)
			free(t, slot)
			k.settle(t)
			g.empty(t, a, b, c, d)
		})
	}
}

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
			wants(t, err, distlock.ErrDeadlock, distlock.ErrNotAcquired)
			if errors.Is(err, distlock.ErrHeld) {
				t.Errorf("%s: a retry of ErrHeld would wait for itself: %v", name, err)
			}
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
