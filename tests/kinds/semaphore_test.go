package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func counts(f driver.Features) bool { return f.Count && f.Expiry }

func slots(t *testing.T, l *distlock.Locker, n int64) *distlock.Semaphore {
	t.Helper()
	s, err := l.Semaphore(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Processes compete for slots with different weights. A checker verifies that no more slots were
// held than the semaphore has.
func TestSemaphore_history(t *testing.T) {
	t.Parallel()
	onEach(t, counts, func(t *testing.T, url string) {
		load := &workload.Load{
			Recorder: history.New(), TTL: 2 * time.Second, Key: func(*rand.Rand) string { return "x" },
			Pause: 5 * time.Millisecond, Work: 5 * time.Millisecond, Long: 1000, Wait: 3 * soon,
		}
		ctx, stop := context.WithTimeout(t.Context(), 3*soon)
		defer stop()
		var wg sync.WaitGroup
		for p := range 3 {
			l := locker(t, url, distlock.TTL(load.TTL))
			for i := range 3 {
				c := &workload.Client{
					Load: load, Name: fmt.Sprint("process ", p), Locker: l, Slots: slots(t, l, 3),
					Rand: rand.New(rand.NewPCG(uint64(p), uint64(i))),
				}
				wg.Go(func() { c.Run(ctx) })
			}
		}
		for load.Grants.Load() < 150 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop()
		wg.Wait()
		rules := history.Rules{Tolerance: soon, Min: history.Minimums{Grants: 150, ContendedWaits: 10}}
		v, err := history.Verify(load.Recorder.History(), rules,
			history.Search{Dir: t.TempDir(), Name: "semaphore"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d grants, %d contended waits", v.Grants, v.Waits)
	})
}

// slotsTTL is the time for which the slots of a process outlive it. It is longer than a scheduler
// stall on a busy machine.
const slotsTTL = 3 * time.Second

// playSlots is a process that holds all slots of a semaphore until it is killed.
func playSlots(args []string) int {
	s, err := open.Open(context.Background(), args[0])
	if err == nil {
		err = holdSlots(context.Background(), s.Store)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func holdSlots(ctx context.Context, store driver.Store) error {
	l, err := distlock.New(store, distlock.TTL(slotsTTL))
	if err != nil {
		return err
	}
	s, err := l.Semaphore(2)
	if err != nil {
		return err
	}
	return s.Do(ctx, "x", func(ctx context.Context) error {
		fmt.Println("holds")
		<-ctx.Done()
		return context.Cause(ctx)
	}, distlock.Weight(2))
}

// The slots of a killed process are free after its TTL, and not before.
func TestSemaphore_kill(t *testing.T) {
	t.Parallel()
	onEach(t, counts, func(t *testing.T, url string) {
		p := testenv.Helper(t, "slots", url)
		if line := p.Line(); line != "holds" {
			t.Fatalf("the helper printed %q", line)
		}
		s := slots(t, locker(t, url), 2)
		next := wait(t, s.Acquire)
		time.Sleep(slotsTTL * 3 / 2)
		select {
		case g := <-next:
			t.Fatalf("granted while another process renews: %v, %v", g.lease, g.err)
		default:
		}
		killed := testenv.NewStopwatch(t)
		p.Kill()
		lease := granted(t, next)
		if took := killed.Elapsed(); took > 2*slotsTTL {
			t.Errorf("granted after %v, but the TTL is %v", took, slotsTTL)
		}
		unlock(t, lease)
	})
}

// A semaphore that is made larger lets waiters in. A semaphore that is made smaller lets no one in
// until a slot is free.
func TestSemaphore_Resize(t *testing.T) {
	t.Parallel()
	onEach(t, counts, func(t *testing.T, url string) {
		here, there := slots(t, locker(t, url), 1), slots(t, locker(t, url), 1)
		first, err := there.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t, here.Acquire)
		if err := here.Resize(2); err != nil {
			t.Fatal(err)
		}
		second := granted(t, next)
		if err := here.Resize(1); err != nil {
			t.Fatal(err)
		}
		unlock(t, first)
		if _, err := here.TryAcquire(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("the only slot is held, and another caller got it: %v", err)
		}
		unlock(t, second)
	})
}

// On a store that cannot count, the constructors of semaphores and limiters return an error.
func TestLocker_unsupported(t *testing.T) {
	t.Parallel()
	onEach(t, func(f driver.Features) bool { return !counts(f) }, func(t *testing.T, url string) {
		l := locker(t, url)
		_, errSlots := l.Semaphore(2)
		_, errRate := l.Limiter(2, time.Minute)
		name := store(t, url).Features().Name
		for _, err := range []error{errSlots, errRate} {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("store %s: %v", name, err)
			}
		}
	})
}
