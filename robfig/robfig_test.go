package robfig_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/robfig"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// late fires jobs a while after their time, as a cron does whose clock is late: it still takes them for what was planned.
func late(d time.Duration) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			time.Sleep(d)
			j.Run()
		})
	}
}

// three runs the crons of three processes whose clocks differ, for a while. It returns when their jobs have ended.
func three(t *testing.T, o *distlock.CronOptions, lates [3]time.Duration, begins [3]time.Duration, while time.Duration, add func(i int, c *robfig.Cron)) {
	t.Helper()
	store := mem.New()
	var crons []*cron.Cron
	var lockers []*distlock.Locker
	for i := range 3 {
		l, err := distlock.New(store)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := l.Cron(o)
		if err != nil {
			t.Fatal(err)
		}
		c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC), cron.WithChain(late(lates[i])))
		add(i, robfig.New(c, jobs, nil))
		time.Sleep(begins[i])
		c.Start()
		crons, lockers = append(crons, c), append(lockers, l)
	}
	time.Sleep(while)
	for i := range 3 {
		<-crons[i].Stop().Done()
		if err := lockers[i].Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestCron_Add_oncePerFire(t *testing.T) {
	tests := map[string]struct {
		spec   string
		lates  [3]time.Duration
		begins [3]time.Duration
	}{
		"clocks that agree":   {spec: "*/10 * * * * *"},
		"clocks that differ":  {spec: "*/10 * * * * *", lates: [3]time.Duration{0, 300 * time.Millisecond, 7 * time.Second}},
		"later than a period": {spec: "*/10 * * * * *", lates: [3]time.Duration{0, 0, 25 * time.Second}},
		"begun at any time":   {spec: "@every 10s", begins: [3]time.Duration{0, 3 * time.Second, 4 * time.Second}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				runs := 0
				three(t, nil, tt.lates, tt.begins, 10*time.Minute, func(_ int, c *robfig.Cron) {
					_, err := c.Add(context.Background(), tt.spec, "report", func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						runs++
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				})
				if runs < 60 || runs > 61 {
					t.Errorf("%d runs in ten minutes, want one every ten seconds", runs)
				}
			})
		})
	}
}

func TestCron_Add_skipsIfRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, runs := 0, 0, 0
		three(t, nil, [3]time.Duration{0, time.Second, 2 * time.Second}, [3]time.Duration{}, 10*time.Minute, func(_ int, c *robfig.Cron) {
			_, err := c.Add(context.Background(), "*/10 * * * * *", "report", func(context.Context) error {
				mu.Lock()
				running++
				runs++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(25 * time.Second) // longer than two periods
				mu.Lock()
				running--
				mu.Unlock()
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		if most != 1 || runs < 19 || runs > 21 {
			t.Errorf("%d at a time and %d runs; want 1 and every third fire of 60", most, runs)
		}
	})
}

func TestCron_Add_fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := distlock.New(mem.New())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		jobs, err := l.Cron(nil)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		c := cron.New(cron.WithSeconds(), cron.WithChain(late(time.Second)))
		singleton := robfig.New(c, jobs, slog.New(slog.NewTextHandler(&log, nil)))
		if _, err := singleton.Add(t.Context(), "nonsense", "report", nil); err == nil || !strings.Contains(err.Error(), "report") {
			t.Errorf("a bad schedule: %v", err)
		}
		id, err := singleton.Add(t.Context(), "* * * * * *", "report", func(context.Context) error { return errors.New("out of paper") })
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(2500 * time.Millisecond)
		c.Remove(id) // one fire is on its way, and finds its job gone
		<-c.Stop().Done()
		if n := strings.Count(log.String(), "out of paper"); n != 1 {
			t.Errorf("%d failures were told: %s", n, &log)
		}
	})
}
