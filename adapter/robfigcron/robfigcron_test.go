package robfigcron_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/robfigcron"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// late delays runs. A delay of less than a period has the effect of a clock that is late: the cron
// assigns the runs to their scheduled time. After a longer delay it assigns them to the last
// scheduled time that is due.
func late(d time.Duration) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			time.Sleep(d)
			j.Run()
		})
	}
}

// begin starts the cron of a process. It returns a function that stops the cron after its jobs have
// ended.
func begin(t *testing.T, store driver.Store, late cron.JobWrapper, add func(c *robfigcron.Cron)) (end func()) {
	t.Helper()
	l, err := distlock.New(store)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := l.Cron(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC), cron.WithChain(late))
	add(robfigcron.New(c, jobs, nil))
	c.Start()
	return func() {
		<-c.Stop().Done()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// three runs the crons of three processes for a while. It returns when their jobs have ended.
func three(t *testing.T, store driver.Store, lates, begins [3]time.Duration, while time.Duration, add func(c *robfigcron.Cron)) {
	t.Helper()
	var ends []func()
	for i := range 3 {
		time.Sleep(begins[i])
		ends = append(ends, begin(t, store, late(lates[i]), add))
	}
	time.Sleep(while)
	for _, end := range ends {
		end()
	}
}

// counted adds a job that counts its runs.
func counted(t *testing.T, spec string, runs *atomic.Int64) func(c *robfigcron.Cron) {
	return func(c *robfigcron.Cron) {
		_, err := c.Add(context.Background(), spec, "report", func(context.Context) error {
			runs.Add(1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// remembered checks that a store has as many records as there were runs, one every ten seconds.
func remembered(t *testing.T, store driver.Store, runs int64) {
	t.Helper()
	var fires []time.Time
	for c, err := range driver.List(t.Context(), store, "~once/report@") {
		if err != nil {
			t.Fatal(err)
		}
		fire, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(c.Key, "~once/report@"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(fires); n > 0 && fire.Sub(fires[n-1]) != 10*time.Second {
			t.Errorf("a run of %v after one of %v", fire, fires[n-1])
		}
		fires = append(fires, fire)
	}
	if int64(len(fires)) != runs {
		t.Errorf("%d runs for %d fires", runs, len(fires))
	}
}

func TestCron_Add_oncePerFire(t *testing.T) {
	tests := map[string]struct {
		spec   string
		lates  [3]time.Duration
		begins [3]time.Duration
	}{
		"clocks that agree":  {spec: "*/10 * * * * *"},
		"clocks that differ": {spec: "*/10 * * * * *", lates: [3]time.Duration{0, 300 * time.Millisecond, 7 * time.Second}},
		"one delayed":        {spec: "*/10 * * * * *", lates: [3]time.Duration{0, 0, 25 * time.Second}},
		"all delayed":        {spec: "*/10 * * * * *", lates: [3]time.Duration{13 * time.Second, 14 * time.Second, 25 * time.Second}},
		"started any time":   {spec: "@every 10s", begins: [3]time.Duration{0, 3 * time.Second, 4 * time.Second}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				store := mem.New()
				three(t, store, tt.lates, tt.begins, 10*time.Minute, counted(t, tt.spec, &runs))
				if n := runs.Load(); n < 59 || n > 61 { // delayed runs merge with the next
					t.Errorf("%d runs in ten minutes, want one every ten seconds", n)
				}
				remembered(t, store, runs.Load())
			})
		})
	}
}

// TestCron_Add_everyFewHours checks that processes that start hours apart run at the same times,
// with any schedule, and store a run for an hour.
func TestCron_Add_everyFewHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var runs []string
		three(t, mem.New(), [3]time.Duration{0, time.Second, time.Minute}, [3]time.Duration{10 * time.Minute, 2 * time.Hour, 2 * time.Hour}, 20*time.Hour, func(c *robfigcron.Cron) {
			_, err := c.Add(context.Background(), "@every 6h", "report", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, time.Now().UTC().Format("02 15:04"))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		if got, want := strings.Join(runs, ", "), "01 06:00, 01 12:00, 01 18:00, 02 00:00"; got != want {
			t.Errorf("ran at %s; want %s", got, want)
		}
	})
}

// TestCron_Add_lateByMinutes checks clocks that are late by minutes. Every bubble starts at the
// same moment of its own clock. So the second process is late by the duration of the first one, and
// the third by that of both: they find earlier runs done, and run those that no process has done.
func TestCron_Add_lateByMinutes(t *testing.T) {
	var store mem.Store // its clock starts in the first bubble
	var all int64
	for _, p := range []struct {
		late, while time.Duration
		runs        int64
	}{
		{0, 10 * time.Minute, 60},
		{300 * time.Millisecond, 10 * time.Minute, 0},
		{7 * time.Second, 15 * time.Minute, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			end := begin(t, &store, late(p.late), counted(t, "*/10 * * * * *", &runs))
			time.Sleep(p.while + 5*time.Second) // between two runs
			end()
			if n := runs.Load(); n != p.runs {
				t.Errorf("the process that is late by %v more had %d runs, want %d", p.late, n, p.runs)
			}
			all += runs.Load()
			remembered(t, &store, all)
		})
	}
}

func TestCron_Add_skipsIfRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, runs := 0, 0, 0
		three(t, mem.New(), [3]time.Duration{0, time.Second, 2 * time.Second}, [3]time.Duration{}, 10*time.Minute, func(c *robfigcron.Cron) {
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
		singleton := robfigcron.New(c, jobs, slog.New(slog.NewTextHandler(&log, nil)))
		if _, err := singleton.Add(t.Context(), "nonsense", "report", nil); err == nil || !strings.Contains(err.Error(), "report") {
			t.Errorf("a bad schedule: %v", err)
		}
		id, err := singleton.Add(t.Context(), "* * * * * *", "report", func(context.Context) error { return errors.New("out of paper") })
		if err != nil {
			t.Fatal(err)
		}
		c.Start()
		time.Sleep(2500 * time.Millisecond)
		c.Remove(id) // one run is due, and finds its job removed
		<-c.Stop().Done()
		if n := strings.Count(log.String(), "out of paper"); n != 1 || !strings.Contains(log.String(), "ran=true") {
			t.Errorf("%d failures were logged: %s", n, &log)
		}
	})
}
