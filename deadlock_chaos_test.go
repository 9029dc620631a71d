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

// A world is a store, some Lockers, and parties that take some of its locks, one under the other.
type world struct {
	t       *testing.T
	g       *gate
	rng     *rand.Rand
	lockers []*distlock.Locker
	slots   []*distlock.Semaphore // of the Lockers

	mu      sync.Mutex
	steps   map[string]int // how often a party got on
	told    int
	notices int
}

const worldSize = 2 // the slots of its semaphores

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

// A wish is one lock of a party.
type wish struct {
	key   int
	take  takeFunc
	opts  []distlock.Option
	think time.Duration // before the next one
}

// wishes are locks on keys, by a Locker, in some mode.
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

// play takes all locks, one under the other, thinks under each, and gives them back.
func (w *world) play(ctx context.Context, me string, wishes []wish) error {
	if len(wishes) == 0 {
		return nil
	}
	first := wishes[0]
	lease, err := first.take(ctx, fmt.Sprint("k", first.key), append(first.opts, distlock.Holder(me))...)
	if err != nil {
		w.judge(me, err)
		return err
	}
	w.mu.Lock()
	w.steps[me]++
	w.mu.Unlock()
	time.Sleep(first.think)
	return errors.Join(w.play(lease.Context(ctx), me, wishes[1:]), lease.Unlock(ctx))
}

// judge looks whether what a party was told is true: then nobody of the circle gets on before it gives back what it has, however long
// that takes, unless another one is told too, or stood behind it in the same line.
func (w *world) judge(me string, err error) {
	var deadlock *distlock.DeadlockError
	if !errors.As(err, &deadlock) {
		return
	}
	w.mu.Lock()
	w.told++
	told, before := w.told, map[string]int{}
	for i, p := range deadlock.Cycle {
		before[p.Holder] = w.steps[p.Holder]
		if i > 0 && p.Waits.Name == deadlock.Name {
			told = -1
		}
	}
	w.mu.Unlock()
	time.Sleep(10 * time.Second) // all others have thought by then
	w.mu.Lock()
	defer w.mu.Unlock()
	for holder, steps := range before {
		if w.steps[holder] != steps && w.told == told {
			w.t.Errorf("%s was told of a deadlock, and %s got on: %v", me, holder, err)
		}
	}
}

// run plays all parties and waits for them.
func (w *world) run(parties [][]wish) (deadlocks int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for i, wishes := range parties {
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
	return w.told
}

// keys returns some keys of six, in any order.
func (w *world) keys() []int { return w.rng.Perm(6)[:2+w.rng.IntN(2)] }

// Parties that take locks of all kinds in one order never wait in a circle, however long they wait.
func TestDeadlock_noFalseAlarm(t *testing.T) {
	notices, runs := 0, *seeds*5/2
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			var parties [][]wish
			for range 6 {
				keys := w.keys()
				slices.Sort(keys)
				parties = append(parties, w.wishes(keys))
			}
			if told := w.run(parties); told > 0 {
				t.Errorf("%d false alarms", told)
			}
			notices += w.notices
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d notices", notices); notices < runs {
		t.Errorf("only %d notices: hardly anybody waited", notices)
	}
}

// A circle through a semaphore is no deadlock while somebody who can go on has a slot.
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
			for range n - 1 { // they have the other slots, and want what the last one has
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
		t.Errorf("only %d notices: hardly anybody waited", notices)
	}
}

// Parties that take locks of all kinds in any order wait in circles of all kinds. Whoever is told is told the truth, and
// everybody comes to an end.
func TestDeadlock_chaos(t *testing.T) {
	told, runs := 0, *seeds*3/4
	for seed := range uint64(runs) {
		inBubble(t, func(t *testing.T, g *gate) {
			w := newWorld(t, g, seed)
			var parties [][]wish
			for range 6 {
				parties = append(parties, w.wishes(w.keys()))
			}
			told += w.run(parties)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d were told", told); told < runs/3 {
		t.Errorf("only %d were told: hardly anybody waited in a circle", told)
	}
}
