package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/gocronlock"
	"github.com/distlock/distlock/adapter/robfigcron"
	"github.com/distlock/distlock/driver"
)

// everySecond is a schedule with seconds.
const everySecond = "* * * * * *"

// The crons of three processes run each fire once.
func TestRobfig(t *testing.T) {
	t.Parallel()
	onEach(t, keeps, func(t *testing.T, url string) {
		var runs atomic.Int64
		var all []*cron.Cron
		// No fire is skipped on a slow machine.
		for _, jobs := range crons(t, url, &distlock.CronOptions{Overlap: true}) {
			c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
			_, err := robfigcron.New(c, jobs, nil).Add(t.Context(), everySecond, "report", func(context.Context) error {
				runs.Add(1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			c.Start()
			all = append(all, c)
		}
		until(t, "three fires are run", func() bool { return runs.Load() >= 3 })
		for _, c := range all {
			<-c.Stop().Done()
		}
		for c, err := range driver.List(t.Context(), store(t, url), "~once/report@") {
			if err != nil {
				t.Fatal(err)
			}
			fire, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(c.Key, "~once/report@"))
			if err != nil || !fire.Equal(fire.Truncate(time.Second)) {
				t.Errorf("%q is not a planned fire: %v", c.Key, err)
			}
			runs.Add(-1)
		}
		if n := runs.Load(); n != 0 {
			t.Errorf("%d more runs than fires", n)
		}
	})
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 3*soon {
			t.Fatalf("not within %v: %s", 3*soon, what)
		}
	}
}

// schedulers returns a gocron scheduler for each process.
func schedulers(t *testing.T, opt func(i int) gocron.SchedulerOption) (out []gocron.Scheduler) {
	t.Helper()
	for i := range processes {
		s, err := gocron.NewScheduler(opt(i), gocron.WithLocation(time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
		})
		out = append(out, s)
	}
	return out
}

// A countingLocker counts grants and refusals. It repeats a call while the store is unavailable.
type countingLocker struct {
	gocron.Locker
	granted, refused *atomic.Int64
	slow             *atomic.Int64 // refusals after a call that the store did not answer
}

func (l countingLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	for {
		lock, err := l.Locker.Lock(ctx, key)
		switch {
		case err == nil:
			l.granted.Add(1)
		case errors.Is(err, distlock.ErrHeld):
			if errors.Is(err, distlock.ErrUnknown) || errors.Is(err, distlock.ErrUnavailable) {
				l.slow.Add(1)
			}
			l.refused.Add(1)
		case ctx.Err() == nil:
			time.Sleep(20 * time.Millisecond)
			continue
		}
		return lock, err
	}
}

// Three schedulers fire the same jobs at the same time. Each job runs once.
func TestGocron_Locker(t *testing.T) {
	t.Parallel()
	onEach(t, outlives, func(t *testing.T, url string) {
		var granted, refused, slow atomic.Int64
		all := schedulers(t, func(int) gocron.SchedulerOption {
			l, err := gocronlock.NewLocker(store(t, url), 2*soon) // no scheduler is later than this
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := l.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return gocron.WithDistributedLocker(countingLocker{l, &granted, &refused, &slow})
		})
		const jobs = 5
		var runs [jobs]atomic.Int64
		for _, s := range all {
			for i := range jobs {
				_, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
					gocron.NewTask(func() { runs[i].Add(1) }), gocron.WithName(fmt.Sprint("job ", i)))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, s := range all {
			go s.Start() // with a start time, a scheduler that is not ready by then would never run a job
		}
		until(t, "all schedulers have tried all jobs",
			func() bool { return granted.Load()+refused.Load() == processes*jobs })
		for _, s := range all {
			if err := s.StopJobs(); err != nil { // waits for their end
				t.Error(err)
			}
		}
		for i := range runs {
			// A leftover of an unanswered request to a slow majority blocks all schedulers for a
			// TTL.
			if n := runs[i].Load(); n > 1 || n == 0 && slow.Load() == 0 {
				t.Errorf("job %d ran %d times", i, n)
			}
		}
	})
}

// The leading scheduler runs the jobs. After it resigns, another scheduler runs them.
func TestGocron_Elector(t *testing.T) {
	t.Parallel()
	onEach(t, elects, func(t *testing.T, url string) {
		var electors []*gocronlock.Elector
		all := schedulers(t, func(int) gocron.SchedulerOption {
			e, err := locker(t, url).Election()
			if err != nil {
				t.Fatal(err)
			}
			elector := gocronlock.NewElector(e, "schedulers")
			t.Cleanup(elector.Close)
			electors = append(electors, elector)
			return gocron.WithDistributedElector(elector)
		})
		var runs [processes]atomic.Int64
		for i, s := range all {
			if _, err := s.NewJob(gocron.CronJob(everySecond, true), gocron.NewTask(func() { runs[i].Add(1) })); err != nil {
				t.Fatal(err)
			}
			s.Start()
		}
		ran := func() (who []int) {
			for i := range runs {
				if runs[i].Load() > 0 {
					who = append(who, i)
				}
			}
			return who
		}
		until(t, "the leader runs the job", func() bool { return len(ran()) > 0 })
		first := ran()
		if len(first) != 1 || electors[first[0]].IsLeader(t.Context()) != nil {
			t.Fatalf("%v ran the job, but only the leader may", first)
		}
		electors[first[0]].Close()
		before := runs[first[0]].Load()
		until(t, "the next leader runs the job", func() bool { return len(ran()) > 1 })
		if after := runs[first[0]].Load(); after > before+1 { // a run may have begun before it resigned
			t.Errorf("the scheduler that resigned ran the job %d more times", after-before)
		}
		if who := ran(); len(who) != 2 || !slices.Contains(who, first[0]) {
			t.Errorf("%v ran the job", who)
		}
	})
}
