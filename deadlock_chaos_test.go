package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A world is a store, some Lockers, and tasks that acquire some of its locks, each under the one
// before.
type world struct {
	t       *testing.T
	g       *gate
	rng     *rand.Rand
	lockers []*distlock.Locker
	slots   []*distlock.Semaphore // one for each Locker

	mu        sync.Mutex
	steps     map[string]int // the number of locks that each task got
	deadlocks int
	notices   int
}

const worldSize = 2 // slots of each semaphore

func newWorld(t *testing.T, g *gate, seed uint64) *world {
	t.Helper()
	w := &world{t: t, g: g, rng: rand.New(rand.NewPCG(seed, 7)), steps: map[string]int{}}
	for range 3 {
		l := g.locker(t)
		s, err := l.Semaphore(worldSize)
		if err != nil {
			t.Fatal(err)
		}
		w.lockers, w.slots = append(w.lockers, l), append(w.slots, s)
	}
	g.set(func(g *gate) {
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			if strings.HasPrefix(r.Key, "~wait/") {
				w.mu.Lock()
				w.notices++
				w.mu.Unlock()
			}
			return next(ctx, r)
		}
	})
	return w
}

// A wish is one lock of a task.
type wish struct {
	key   int
	take  takeFunc
	opts  []distlock.Option
	think time.Duration // before the next lock
}

// wishes returns locks on keys, by one Locker, in random modes.
func (w *world) wishes(keys []int) (out []wish) {
	at := w.rng.IntN(len(w.lockers))
	l, s := w.lockers[at], w.slots[at]
	for _, key := range keys {
		one := wish{key: key, take: l.Lock, think: time.Duration(w.rng.Int64N(int64(4 * time.Second)))}
		switch kind := key % 3; {
		case kind == 1 && w.rng.IntN(2) == 0:
			one.take = l.RLock
		case kind == 2:
			one.take, one.opts = s.Acquire, []distlock.Option{distlock.Weight(1 + w.rng.Int64N(worldSize))}
		}
		out = append(out, one)
	}
	return out
}

// play acquires all locks, each under the one before, pauses under each, and releases them.
func (w *world) play(ctx context.Context, me string, wishes []wish) error {
	if len(wishes) == 0 {
		return nil
	}
	first := wishes[0]
	lease, err := first.take(ctx, fmt.Sprint("k", first.key), append(first.opts, distlock.Holder(me))...)
	if err != nil {
		w.check(me, err)
		return err
	}
	w.mu.Lock()
	w.steps[me]++
	w.mu.Unlock()
	time.Sleep(first.think)
	return errors.Join(w.play(lease.Context(ctx), me, wishes[1:]), lease.Unlock(ctx))
}

// check checks a reported deadlock: no task of the cycle may get its lock before the victim has
// released its own, however long that takes. Excepted are a cycle of which another task gets an
// error too, and a task that waited behind the victim in the same queue.
func (w *world) check(me string, err error) {
	var deadlock *distlock.DeadlockError
	if !errors.As(err, &deadlock) {
		return
	}
	w.mu.Lock()
	w.deadlocks++
	deadlocks, before := w.deadlocks, map[string]int{}
	for i, p := range deadlock.Cycle {
		before[p.Holder] = w.steps[p.Holder]
		if i > 0 && p.Waits.Name == deadlock.Name {
			deadlocks = -1
		}
	}
	w.mu.Unlock()
	time.Sleep(10 * time.Second) // longer than any pause of the others
	w.mu.Lock()
	defer w.mu.Unlock()
	for holder, steps := range before {
		if w.steps[holder] != steps && w.deadlocks == deadlocks {
			w.t.Errorf("%s got a deadlock error, but %s got its lock: %v", me, holder, err)
		}
	}
}

// run plays all tasks and waits for them.
func (w *world) run(tasks [][]wish) (deadlocks int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for i, wishes := range tasks {
		begins := time.Duration(w.rng.Int64N(int64(3 * time.Second)))
		wg.Go(func() {
			time.Sleep(begins)
			if err := w.play(ctx, fmt.Sprint("p", i), wishes); err != nil && !errors.Is(err, distlock.ErrDeadlock) {
				w.t.Errorf("p%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	w.g.empty(w.t, w.lockers...)
	return w.deadlocks
}

// keys returns two or three keys of six, in random order.
func (w *world) keys() []int { return w.rng.Perm(6)[:2+w.rng.IntN(2)] }

// Tasks that acquire locks of all kinds in the same order never wait in a cycle, however long they
// wait.
func TestDeadlock_noFalseAlarm(t *testing.T) {
	notices, runs := 0, *seeds*5/2
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			var tasks [][]wish
			for range 6 {
				keys := w.keys()
				slices.Sort(keys)
				tasks = append(tasks, w.wishes(keys))
			}
			if n := w.run(tasks); n > 0 {
				t.Errorf("%d false alarms", n)
			}
			notices += w.notices
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d notices", notices); notices < runs {
		t.Errorf("only %d notices: hardly any task waited", notices)
	}
}

// A cycle through a semaphore is no deadlock while a task that can continue holds a slot.
func TestDeadlock_noFalseAlarm_semaphore(t *testing.T) {
	notices, runs := 0, *seeds*5/2
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			n := 2 + w.rng.Int64N(3)
			sem := func() *distlock.Semaphore {
				s, err := w.lockers[w.rng.IntN(len(w.lockers))].Semaphore(n)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			outside := must(t)(sem().Acquire(t.Context(), "s"))
			var steps []step
			for range n - 1 { // they hold the other slots, and want the lock of the last task
				l := w.lockers[w.rng.IntN(len(w.lockers))]
				steps = append(steps, step{lock(sem().Acquire, "s"), lock(l.Lock, "x")})
			}
			last := w.lockers[w.rng.IntN(len(w.lockers))]
			steps = append(steps, step{lock(last.Lock, "x"), lock(sem().Acquire, "s")})
			w.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			k := tie(t, steps, func() time.Duration { return time.Duration(w.rng.Int64N(int64(time.Second))) })
			time.Sleep(time.Duration(w.rng.Int64N(int64(10 * time.Second))))
			free(t, outside)
			k.settle(t)
			g.empty(t, w.lockers...)
			notices += w.notices
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d notices", notices); notices < runs {
		t.Errorf("only %d notices: hardly any task waited", notices)
	}
}

// Tasks that acquire locks of all kinds in random order wait in cycles of all kinds. Each reported
// deadlock is a true one, and all tasks end.
func TestDeadlock_chaos(t *testing.T) {
	deadlocks, runs := 0, *seeds*3/4
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			var tasks [][]wish
			for range 6 {
				tasks = append(tasks, w.wishes(w.keys()))
			}
			deadlocks += w.run(tasks)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d deadlocks", deadlocks); deadlocks < runs/3 {
		t.Errorf("only %d deadlocks: hardly any task waited in a cycle", deadlocks)
	}
}
