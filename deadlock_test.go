package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
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
	for seed := range uint64(few(300)) {
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

// A showGate is a gate that counts the calls of Show, and lets a test change their result.
type showGate struct {
	*gate
	shows atomic.Int64
	after func(key string) error // runs after each call; nil: nothing
}

func (p *showGate) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	p.shows.Add(1)
	claims, err := p.Store.Show(ctx, key)
	if p.after != nil {
		err = errors.Join(err, p.after(key))
	}
	return claims, err
}

func (p *showGate) locker(t *testing.T, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	return lockerOn(t, p, opts...)
}

// notices returns the number of notices in the store.
func (g *gate) notices(t *testing.T) (n int) {
	t.Helper()
	for c, err := range g.Store.List(context.Background(), "~wait/") {
		if err != nil {
			t.Fatal(err)
		}
		if c.Task == "" || c.Holder == "" {
			t.Errorf("a notice without a task or holder: %+v", c)
		}
		n++
	}
	return n
}

// LockAll holds its first locks while it waits for the others.
func TestDeadlock_LockAll(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t, distlock.Holder("a")), g.locker(t, distlock.Holder("b"))
		last := must(t)(b.Lock(t.Context(), "3"))
		var all *distlock.Leases
		takeAll := func(ctx context.Context, _ string, _ ...distlock.Option) (_ *distlock.Lease, err error) {
			all, err = a.LockAll(ctx, []string{"3", "1", "2"})
			return nil, err
		}
		time.Sleep(time.Second)
		many := begin(t.Context(), takeAll, "").waits(t)
		one := begin(under(t, last), b.Lock, "1").waits(t)
		err := many.refused(t, distlock.ErrDeadlock)
		many.within(t, time.Second, 2*time.Second)
		var deadlock *distlock.DeadlockError
		if !errors.As(err, &deadlock) || len(deadlock.Cycle) != 2 || deadlock.Name != "3" ||
			deadlock.Cycle[0].Holds[0].Name != "1" || len(deadlock.Cycle[0].Holds) != 1 {
			t.Errorf("%v", err)
		}
		free(t, one.now(t)) // LockAll has released all its locks
		free(t, last)
		if all != nil {
			t.Error("leases in spite of the error")
		}
		g.empty(t, a, b)
	})
}

// A cycle that one look at the wait-for graph shows and the next does not is no deadlock.
func TestDeadlock_leavesMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		time.Sleep(time.Second)
		y := must(t)(b.Lock(t.Context(), "y"))
		ctx, cancel := context.WithCancelCause(under(t, x))
		leaves := begin(ctx, a.Lock, "y").waits(t)
		time.Sleep(100 * time.Millisecond)
		stays := begin(under(t, y), b.Lock, "x").waits(t)
		time.Sleep(1100 * time.Millisecond) // b has seen the cycle once
		stays.waits(t)
		cancel(errors.New("enough"))
		if err := leaves.refused(t, distlock.ErrHeld); errors.Is(err, distlock.ErrDeadlock) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		stays.waits(t)
		free(t, x)
		free(t, stays.now(t))
		free(t, y)
		g.empty(t, a, b)
	})
}

// A store whose least TTL is two seconds keeps notices for that long. A deadlock is found a little
// later, and a process that died is in none.
func TestDeadlock_longNotices(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.features = func(f *driver.Features) { f.MinTTL = 2 * time.Second }
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		time.Sleep(time.Second)
		y := must(t)(b.Lock(t.Context(), "y"))
		waits, victim := begin(under(t, x), a.Lock, "y"), begin(under(t, y), b.Lock, "x")
		victim.within(t, 3*time.Second, 4*time.Second)
		victim.refused(t, distlock.ErrDeadlock)
		free(t, y)
		free(t, waits.now(t))
		free(t, x)
	})
	died(t, func(f *driver.Features) { f.MinTTL = 2 * time.Second }, 2100*time.Millisecond)
}

// A process that died waits for no lock. Its locks are free when their TTL has ended.
func TestDeadlock_dead(t *testing.T) { died(t, nil, 1200*time.Millisecond) }

// died freezes a process that waits, and then lets another wait for the lock that it holds.
func died(t *testing.T, features func(*driver.Features), after time.Duration) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.features = features
		far := g.another()
		far.features = features
		a, d := g.locker(t), far.locker(t, distlock.TTL(10*time.Second))
		y := must(t)(d.Lock(t.Context(), "y"))
		time.Sleep(time.Second)
		x := must(t)(a.Lock(t.Context(), "x"))
		begin(under(t, y), d.Lock, "x").waits(t)
		time.Sleep(after)
		if n := g.notices(t); n != 1 {
			t.Errorf("%d notices", n)
		}
		far.freeze()
		waits := begin(under(t, x), a.Lock, "y").waits(t)
		free(t, waits.granted(t))
		free(t, x)
	})
}

// Notices that cannot be parsed, or that name another key, are ignored.
func TestDeadlock_strangeNotices(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		y := must(t)(b.Lock(t.Context(), "y"))
		time.Sleep(time.Second)
		x := must(t)(a.Lock(t.Context(), "x"))
		claims, err := g.Store.Show(t.Context(), "y")
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		for i, text := range []string{
			"", "{", `{"key":"z","fence":1,"wants":"x","weight":1073741824,"limit":1073741824}`, // as if two owners had one tag
		} {
			r := driver.Request{
				ID: driver.ID{Key: "~wait/" + claims[0].Owner, Owner: fmt.Sprint(i)}, Weight: 1, Limit: driver.Whole, TTL: time.Hour,
				Holder: "h", Task: fmt.Sprint("p", i), Value: []byte(text),
			}
			if _, err := g.Store.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		waits := begin(under(t, x), a.Lock, "y").waits(t)
		time.Sleep(time.Minute)
		waits.waits(t)
		free(t, y)
		free(t, waits.now(t))
		free(t, x)
	})
}

// A deadlock is reported later, and otherwise in the same way, if Show fails for a while.
func TestDeadlock_lookFails(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		p := &showGate{gate: g}
		var down atomic.Bool
		down.Store(true)
		p.after = func(string) error {
			if down.Load() {
				return driver.ErrUnavailable
			}
			return nil
		}
		a, b := p.locker(t), p.locker(t)
		k := tie(t, []step{{lock(a.Lock, "x"), lock(a.Lock, "y")}, {lock(b.Lock, "y"), lock(b.Lock, "x")}}, none)
		time.Sleep(time.Minute)
		k.calls[0].waits(t)
		k.calls[1].waits(t)
		down.Store(false)
		k.formed = time.Now()
		k.untie(t, 1)
		g.empty(t, a, b)
	})
}

// Notices that the store lost or did not accept are posted again.
func TestDeadlock_noticesLost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		var posted atomic.Int64
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if !strings.HasPrefix(r.Key, "~wait/") {
					return next(ctx, r)
				}
				nth := posted.Add(1)
				if nth <= 2 {
					return driver.Result{}, errCut
				}
				res, err := next(ctx, r)
				if nth <= 4 {
					_ = g.Store.Release(ctx, r.ID)
				}
				return res, err
			}
		})
		k := tie(t, []step{{lock(a.Lock, "x"), lock(a.Lock, "y")}, {lock(b.Lock, "y"), lock(b.Lock, "x")}}, none)
		k.formed = k.formed.Add(2 * time.Second) // four looks found no notice
		k.untie(t, 1)
		g.mend()
		g.empty(t, a, b)
	})
}

// The answer to a notice was lost. The notice says that a larger call waits before its own. It is
// corrected when this no longer holds.
func TestDeadlock_noticeUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		far := g.another()
		a, b, c := far.locker(t), g.locker(t), g.locker(t)
		slots := func(l *distlock.Locker) *distlock.Semaphore {
			s, err := l.Semaphore(3)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		x := must(t)(a.Lock(t.Context(), "x"))
		works := must(t)(slots(c).Acquire(t.Context(), "s"))
		time.Sleep(time.Second)
		slot := must(t)(slots(b).Acquire(t.Context(), "s")) // the latest lease would be the victim's

		of := slots(a)
		ctx, cancel := context.WithCancel(t.Context())
		large := begin(ctx, of.Acquire, "s", distlock.Weight(3)).waits(t)
		small := begin(under(t, x), of.Acquire, "s", distlock.Weight(2)).waits(t)
		far.set(func(far *gate) {
			far.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				res, err := next(ctx, r)
				if strings.HasPrefix(r.Key, "~wait/") {
					err = errCut
				}
				return res, err
			}
		})
		time.Sleep(1100 * time.Millisecond)
		if n := g.notices(t); n != 1 {
			t.Fatalf("%d notices", n)
		}
		far.mend()
		cancel()
		large.refused(t, context.Canceled)

		time.Sleep(time.Second)
		waits := begin(under(t, slot), b.Lock, "x").waits(t)
		time.Sleep(10 * time.Second)
		waits.waits(t) // only the slot at work blocks the small call
		small.waits(t)
		free(t, works)
		free(t, small.now(t))
		free(t, x)
		free(t, waits.now(t))
		free(t, slot)
		g.empty(t, a, b, c)
	})
}

// A call that waits on after its lease has ended blocks no other call.
func TestDeadlock_leaseEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		y := must(t)(b.Lock(t.Context(), "y"))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Context(t.Context())), time.Hour)
		defer cancel()
		waits := begin(ctx, a.Lock, "y").waits(t)
		time.Sleep(3 * time.Second)
		if n := g.notices(t); n != 1 {
			t.Errorf("%d notices", n)
		}
		free(t, x)
		synctest.Wait()
		if n := g.notices(t); n != 0 {
			t.Errorf("%d notices of a lease that has ended", n)
		}
		waits.waits(t)
		free(t, y)
		free(t, waits.now(t))
		g.empty(t, a, b)
	})
}

// A wait without a lease, a short wait, and a wait for a rate limit cost no call of the deadlock
// detector. A long wait under a lease costs one renewal and two calls of Show in 0.4 s.
func TestDeadlock_cost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		p := &showGate{gate: g}
		a, b := p.locker(t), p.locker(t)
		limit, err := a.Limiter(1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		x := must(t)(b.Lock(t.Context(), "x"))
		begin(t.Context(), a.Lock, "x").waits(t)
		time.Sleep(10 * time.Second)
		y := must(t)(a.Lock(t.Context(), "y"))
		short, cancel := context.WithTimeout(y.Context(t.Context()), 900*time.Millisecond)
		defer cancel()
		begin(short, a.Lock, "x").refused(t, distlock.ErrHeld)
		if err := limit.Allow(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		if err := limit.Wait(y.Context(t.Context()), "r"); err != nil {
			t.Error(err)
		}
		if n := p.shows.Load(); n != 0 || g.notices(t) != 0 {
			t.Errorf("%d calls of Show", n)
		}
		begin(y.Context(t.Context()), a.Lock, "x").waits(t)
		time.Sleep(time.Second)
		g.reset()
		time.Sleep(10 * time.Second)
		if n := p.shows.Load(); n < 50 || n > 58 {
			t.Errorf("%d calls of Show in 10 s", n)
		}
		if n := g.count("renew"); n < 24 || n > 27+2*2 { // and the renewals of the two leases
			t.Errorf("%d renewals in 10 s", n)
		}
		_ = x
	})
}

// A call that no longer waits has no notices, whatever leases its context still holds.
func TestDeadlock_waitEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		y := must(t)(b.Lock(t.Context(), "y"))
		ctx, leave := context.WithCancel(under(t, x))
		left, granted := begin(ctx, a.Lock, "y").waits(t), begin(under(t, x), a.Lock, "y").waits(t)
		time.Sleep(2 * time.Second)
		if n := g.notices(t); n != 2 {
			t.Errorf("%d notices", n)
		}
		leave()
		if err := left.refused(t); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := g.notices(t); n != 1 {
			t.Errorf("%d notices after one call has left", n)
		}
		free(t, y)
		free(t, granted.granted(t))
		if n := g.notices(t); n != 0 {
			t.Errorf("%d notices after the wait", n)
		}
		free(t, x)
		g.empty(t, a, b)
	})
}

// waitUnderLease begins a call of Locker a that holds x and waits for y, which Locker b holds. It
// returns when the call has posted its notice.
func waitUnderLease(t *testing.T, g *gate) (a, b *distlock.Locker, x, y *distlock.Lease, waits *call) {
	t.Helper()
	a, b = g.locker(t), g.locker(t)
	x = must(t)(a.Lock(t.Context(), "x"))
	y = must(t)(b.Lock(t.Context(), "y"))
	waits = begin(under(t, x), a.Lock, "y").waits(t)
	time.Sleep(2 * time.Second)
	if n := g.notices(t); n != 1 {
		t.Errorf("%d notices", n)
	}
	return a, b, x, y, waits
}

// A Locker that is closed ends its detectors, and removes their notices.
func TestDeadlock_Close(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b, _, y, waits := waitUnderLease(t, g)
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := waits.refused(t); !errors.Is(err, distlock.ErrClosed) && !errors.Is(err, distlock.ErrReleased) {
			t.Error(err)
		}
		if n := g.notices(t); n != 0 {
			t.Errorf("%d notices after Close", n)
		}
		free(t, y)
		g.empty(t, a, b)
	})
}

// Claims does not list notices: users did not name them.
func TestDeadlock_notListed(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, _, x, y, waits := waitUnderLease(t, g)
		n := 0
		for c, err := range a.List(t.Context(), distlock.KindAny, "") {
			if n++; err != nil || c.Name != "x" && c.Name != "y" {
				t.Errorf("%+v, %v", c, err)
			}
		}
		if n != 3 {
			t.Errorf("%d claims and queue entries", n)
		}
		free(t, y)
		free(t, waits.now(t))
		free(t, x)
	})
}

// On a store without a queue or without values the detector makes no calls. The locks wait as they
// would without it.
func TestDeadlock_notSupported(t *testing.T) {
	for name, take := range map[string]func(*driver.Features){
		"queue":  func(f *driver.Features) { f.Queue = false },
		"values": func(f *driver.Features) { f.Value = false },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				g.features = take
				p := &showGate{gate: g}
				a, b := p.locker(t), p.locker(t)
				x, y := must(t)(a.Lock(t.Context(), "x")), must(t)(b.Lock(t.Context(), "y"))
				ctx, cancel := context.WithTimeout(x.Context(t.Context()), time.Minute)
				defer cancel()
				first, second := begin(ctx, a.Lock, "y"), begin(under(t, y), b.Lock, "x")
				if err := first.refused(t, distlock.ErrHeld, context.DeadlineExceeded); errors.Is(err, distlock.ErrDeadlock) {
					t.Error(err)
				}
				free(t, x)
				free(t, second.granted(t))
				free(t, y)
				if p.shows.Load() != 0 {
					t.Errorf("%d calls of Show", p.shows.Load())
				}
			})
		})
	}
}

// A goroutine waits under the outer lease. Its wait blocks that lease, not the inner lease that
// another goroutine acquired under it.
func TestDeadlock_branches(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		y := must(t)(b.Lock(t.Context(), "y"))
		time.Sleep(time.Second)
		outer := must(t)(a.Lock(t.Context(), "outer"))
		inner := must(t)(a.Lock(outer.Context(t.Context()), "inner"))
		branch := begin(under(t, outer), a.Lock, "y").waits(t)
		other := begin(under(t, y), b.Lock, "inner").waits(t) // inner can be released: there is no cycle
		time.Sleep(time.Minute)
		branch.waits(t)
		other.waits(t)
		free(t, inner)
		free(t, other.now(t))
		free(t, y)
		free(t, branch.now(t))
		free(t, outer)
		g.empty(t, a, b)
	})
}

// After a hand-off in memory, the next lease takes part in the wait-for graph, not the first one.
func TestDeadlock_handedOff(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t, distlock.Holder("a")), g.locker(t, distlock.Holder("b"))
		first := must(t)(a.Lock(t.Context(), "x"))
		next := begin(t.Context(), a.Lock, "x").waits(t)
		free(t, first)
		x := next.now(t)
		if x.Fence() != first.Fence()+1 {
			t.Fatal("it was not handed off")
		}
		time.Sleep(time.Second)
		y := must(t)(b.Lock(t.Context(), "y"))
		k := &knot{
			leases: []*distlock.Lease{x, y},
			calls:  []*call{begin(under(t, x), a.Lock, "y").waits(t), begin(under(t, y), b.Lock, "x").waits(t)}, formed: time.Now(),
		}
		deadlock := k.untie(t, 1)
		if c := deadlock.Cycle[1].Holds[0]; c.Fence != x.Fence() || c.Held < time.Second || c.Held > 4*time.Second {
			t.Errorf("%+v", c)
		}
		g.empty(t, a, b)
	})
}
