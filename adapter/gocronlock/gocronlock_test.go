package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/gocronlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// skewed is a clock that is late.
type skewed struct {
	clockwork.Clock
	late time.Duration
}

func (s skewed) Now() time.Time                  { return s.Clock.Now().Add(-s.late) }
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
func (s skewed) Until(t time.Time) time.Duration { return t.Sub(s.Now()) }

// lates has how late the clocks of the three schedulers are.
var lates = []time.Duration{0, 400 * time.Millisecond, 3 * time.Second}

// A diary counts runs, by their scheduled time.
type diary struct {
	mu   sync.Mutex
	runs map[time.Time]int
	by   map[int]int // runs by scheduler
}

func (d *diary) note(scheduler int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := skewed{clockwork.NewRealClock(), lates[scheduler]}.Now().Truncate(10 * time.Second)
	d.runs[at]++
	d.by[scheduler]++
}

// schedule runs three schedulers for a while, with a job that is due every ten seconds.
func schedule(t *testing.T, opt func(i int) gocron.SchedulerOption, while func()) *diary {
	t.Helper()
	d := &diary{runs: map[time.Time]int{}, by: map[int]int{}}
	// By every clock, the job is due at multiples of ten seconds.
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute - 5*time.Second)))
	var all []gocron.Scheduler
	for i, late := range lates {
		s, err := gocron.NewScheduler(opt(i), gocron.WithClock(skewed{clockwork.NewRealClock(), late}), gocron.WithLocation(time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.NewJob(gocron.CronJob("*/10 * * * * *", true), gocron.NewTask(func() { d.note(i) }), gocron.WithName("report"))
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		all = append(all, s)
	}
	while()
	for _, s := range all {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
	return d
}

// once checks that a number of scheduled times had one run each.
func (d *diary) once(t *testing.T, fires int) {
	t.Helper()
	if len(d.runs) < fires-1 || len(d.runs) > fires+1 {
		t.Errorf("%d fires were run, want about %d", len(d.runs), fires)
	}
	at := slices.SortedFunc(maps.Keys(d.runs), time.Time.Compare)
	for i, fire := range at {
		if d.runs[fire] != 1 {
			t.Errorf("the job of %v ran %d times", fire, d.runs[fire])
		}
		if i > 0 && fire.Sub(at[i-1]) != 10*time.Second {
			t.Errorf("no job ran between %v and %v", at[i-1], fire)
		}
	}
}

func TestLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var lockers []*gocronlock.Locker
		d := schedule(t, func(int) gocron.SchedulerOption {
			l, err := gocronlock.NewLocker(store, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			lockers = append(lockers, l)
			return gocron.WithDistributedLocker(l)
		}, func() { time.Sleep(10 * time.Minute) })
		d.once(t, 60)
		for _, l := range lockers {
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestLocker_canFail checks that the test detects double runs: without a splay there are some.
func TestLocker_canFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, mem.New())
		d := schedule(t, func(int) gocron.SchedulerOption { return gocron.WithDistributedLocker(plain{l}) }, func() { time.Sleep(time.Minute) })
		for _, n := range d.runs {
			if n > 1 {
				return
			}
		}
		t.Errorf("no job ran twice: %v", d.runs)
	})
}

type plain struct{ l *distlock.Locker }

func (p plain) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	return p.l.TryLock(ctx, key)
}

func TestLocker_Lock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := gocronlock.NewLocker(mem.New(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		lock, err := l.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if lock, err := l.Lock(ctx, "a"); !errors.Is(err, distlock.ErrHeld) || !errors.Is(err, distlock.ErrNotAcquired) || lock != nil {
			t.Errorf("while it runs: %v, %v", lock, err)
		}
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("before the splay has ended: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := l.Lock(ctx, "a"); err != nil {
			t.Error(err)
		}
		_ = l.Close(ctx)
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, distlock.ErrClosed) {
			t.Error(err)
		}
	})
}

// queueless is a store without a queue that refuses at first, as a majority does if its votes are
// split.
type queueless struct {
	*mem.Store
	split int
}

func (s *queueless) Features() driver.Features {
	f := s.Store.Features()
	f.Name, f.Queue = "queueless", false
	return f
}

func (s *queueless) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if s.split > 0 {
		s.split--
		return driver.Result{}, nil
	}
	return s.Store.Acquire(ctx, r)
}

func TestLocker_Lock_noQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const splay = 4 * time.Second
		l, err := gocronlock.NewLocker(&queueless{mem.New(), 3}, splay)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		began := time.Now()
		lock, err := l.Lock(ctx, "a")
		if took := time.Since(began); err != nil || took > splay/2 {
			t.Fatalf("nobody has it: %v after %v", err, took)
		}
		held := time.Now()
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(splay - time.Millisecond) // the clock of the next scheduler is late by that much
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("before the splay has ended: %v", err)
		}
		if _, err := l.Lock(ctx, "a"); err != nil || time.Since(held) < splay {
			t.Errorf("the next run: %v", err)
		}
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// tied is a store whose claims end with their process.
type tied struct{ *mem.Store }

func (s tied) Features() driver.Features {
	f := s.Store.Features()
	f.Name, f.Detached = "tied", false
	return f
}

func TestNewLocker_refuses(t *testing.T) {
	t.Parallel()
	if _, err := gocronlock.NewLocker(mem.New(), 0); !errors.Is(err, distlock.ErrInvalid) {
		t.Error(err)
	}
	if _, err := gocronlock.NewLocker(tied{mem.New()}, time.Second); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func locker(t *testing.T, s driver.Store) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func elector(t *testing.T, s driver.Store, opts ...distlock.Option) *gocronlock.Elector {
	t.Helper()
	e, err := locker(t, s).Election(opts...)
	if err != nil {
		t.Fatal(err)
	}
	el := gocronlock.NewElector(e, "schedulers")
	t.Cleanup(el.Close)
	synctest.Wait()
	return el
}

func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var electors []*gocronlock.Elector
		elect := func(i int) gocron.SchedulerOption {
			electors = append(electors, elector(t, store, distlock.Holder(fmt.Sprint("scheduler ", i))))
			return gocron.WithDistributedElector(electors[i])
		}
		d := schedule(t, elect, func() {
			time.Sleep(5 * time.Minute)
			electors[0].Close() // between two runs
			synctest.Wait()
			if err := electors[0].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, context.Canceled) {
				t.Errorf("an elector that resigned: %v", err)
			}
			time.Sleep(5 * time.Minute)
		})
		d.once(t, 60)
		if d.by[0] == 0 || d.by[1] == 0 || d.by[2] != 0 {
			t.Errorf("runs by scheduler: %v, want those of the first and then those of the second", d.by)
		}
	})
}

func TestElector_lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		el := elector(t, store)
		if err := el.IsLeader(t.Context()); err != nil {
			t.Error(err)
		}
		rival := driver.Request{ID: driver.ID{Key: "~lead/schedulers", Owner: "rival"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Hour}
		_, _ = store.Break(t.Context(), rival.Key, 0, "test")
		if res, err := store.Acquire(t.Context(), rival); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		time.Sleep(time.Minute)
		if err := el.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, distlock.ErrNotAcquired) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if err := el.IsLeader(t.Context()); err != nil {
			t.Error("it does not lead again:", err)
		}
	})
}

// TestElector_storeDown checks that a process that starts while the store is down is a candidate as
// soon as the store is back, and reports meanwhile why it does not lead.
func TestElector_storeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := chaos.New(mem.New(), nil)
		t.Cleanup(link.Close)
		link.Next(chaos.Acquire, chaos.Action{Kind: chaos.Unavailable})
		el := elector(t, link)
		if err := el.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, distlock.ErrUnavailable) {
			t.Errorf("while the store is down: %v", err)
		}
		time.Sleep(time.Minute)
		if err := el.IsLeader(t.Context()); err != nil {
			t.Error("after it is back:", err)
		}
	})
}
