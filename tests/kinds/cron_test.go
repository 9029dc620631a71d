package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/gocronlock"
	"github.com/distlock/distlock/adapter/httpidempotency"
	"github.com/distlock/distlock/driver"
)

func outlives(f driver.Features) bool { return f.Detached }

// processes is the number of processes that share a store.
const processes = 3

// crons returns a [distlock.Cron] for each process.
func crons(t *testing.T, url string, o *distlock.CronOptions) (out []*distlock.Cron) {
	t.Helper()
	for range processes {
		c, err := locker(t, url).Cron(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// fireAll lets all processes reach a fire at the same time. It returns the number of processes that
// ran the job.
func fireAll(
	t *testing.T, all []*distlock.Cron, at time.Time, job func(ctx context.Context) error,
) int64 {
	t.Helper()
	var runs atomic.Int64
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for {
				ran, err := c.Run(t.Context(), "report", at, job)
				if !ran && errors.Is(err, distlock.ErrUnavailable) && t.Context().Err() == nil {
					continue // on a busy machine, a file may be in use for long
				}
				if err != nil {
					t.Error(err)
				}
				if ran {
					runs.Add(1)
				}
				return
			}
		})
	}
	wg.Wait()
	return runs.Load()
}

// One of three processes that reach a fire at the same time runs it. No process that comes later
// runs it again, even if the job failed. Fires during a run are skipped for ever.
func TestCron(t *testing.T) {
	t.Parallel()
	onEach(t, keeps, func(t *testing.T, url string) {
		all := crons(t, url, nil)
		first := time.Date(2030, 1, 1, 3, 0, 0, 0, time.UTC)
		night := func(i int) time.Time { return first.AddDate(0, 0, i) }
		var calls atomic.Int64
		quick := func(context.Context) error { calls.Add(1); return nil }
		for i := range 5 {
			if n := fireAll(t, all, night(i), quick); n != 1 {
				t.Errorf("%d ran fire %d", n, i)
			}
		}
		for i := range 5 {
			if n := fireAll(t, all, night(i), quick); n != 0 {
				t.Errorf("%d ran fire %d again", n, i)
			}
		}
		during := int64(-1)
		if n := fireAll(t, all[:1], night(5), func(context.Context) error {
			during = fireAll(t, all[1:], night(6), quick)
			return nil
		}); n != 1 || during != 0 {
			t.Errorf("%d ran a fire, and during it %d ran the next", n, during)
		}
		if n := fireAll(t, all, night(6), quick); n != 0 || calls.Load() != 5 {
			t.Errorf("%d ran a fire that was skipped; %d calls in all", n, calls.Load())
		}
		bad := errors.New("out of paper")
		if ran, err := all[0].Run(t.Context(), "report", night(7), func(context.Context) error { return bad }); !ran || !errors.Is(err, bad) {
			t.Errorf("a job that fails: %v, %v", ran, err)
		}
		if n := fireAll(t, all[1:], night(7), quick); n != 0 {
			t.Errorf("%d ran a fire that had failed", n)
		}
	})
}

func TestCron_overlap(t *testing.T) {
	t.Parallel()
	onEach(t, keeps, func(t *testing.T, url string) {
		all := crons(t, url, &distlock.CronOptions{Overlap: true})
		now := time.Now()
		during := int64(-1)
		if n := fireAll(t, all[:1], now, func(context.Context) error {
			during = fireAll(t, all[1:], now.Add(time.Minute), func(context.Context) error { return nil })
			return nil
		}); n != 1 || during != 1 {
			t.Errorf("%d ran a fire, and during it %d ran the next", n, during)
		}
	})
}

// A majority and advisory locks keep no records, and advisory locks end with their process.
// Constructors that need more return an error.
func TestCron_refused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		needs func(driver.Features) bool
		make  func(t *testing.T, url string) error
	}{
		"cron": {keeps, func(t *testing.T, url string) error {
			_, err := locker(t, url).Cron(nil)
			return err
		}},
		"idempotency": {keeps, func(t *testing.T, url string) error {
			_, err := httpidempotency.Middleware(locker(t, url), time.Hour,
				&httpidempotency.Options{Scope: httpidempotency.SharedScope})
			return err
		}},
		"gocron": {outlives, func(t *testing.T, url string) error {
			_, err := gocronlock.NewLocker(store(t, url), time.Second)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f driver.Features) bool { return !tt.needs(f) }, func(t *testing.T, url string) {
				err := tt.make(t, url)
				if name := store(t, url).Features().Name; !errors.Is(err, errors.ErrUnsupported) ||
					!strings.Contains(fmt.Sprint(err), "store "+name) {
					t.Errorf("store %s: %v", name, err)
				}
			})
		})
	}
}
