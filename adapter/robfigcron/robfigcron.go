// Package robfigcron connects distributed locks to the scheduler robfig/cron. If several processes
// schedule the same job, the job runs one time for each scheduled time, although the clocks differ.
// A run does not start while an earlier run is in progress. See [distlock.Cron] for the case that a
// process dies.
package robfigcron

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/distlock/distlock"
)

// A Cron adds jobs to the cron of this process.
type Cron struct {
	cron *cron.Cron
	jobs *distlock.Cron
	log  *slog.Logger
}

// New returns a [Cron] that runs jobs through jobs when c starts them. Errors of jobs are logged to
// log; nil means [slog.Default].
func New(c *cron.Cron, jobs *distlock.Cron, log *slog.Logger) *Cron {
	if log == nil {
		log = slog.Default()
	}
	return &Cron{c, jobs, log}
}

// Add adds a job, as [cron.Cron.AddFunc] does. The context of the job ends with ctx, and when the
// lease of the job is lost.
//
// A job is identified by its name, and a run by the scheduled time. So all processes must add a job
// with the same name and the same schedule, in the same time zone. "@every 5m" would count from the
// start of the process, which no other process knows. A job with such a schedule starts at
// multiples of five minutes instead, counted in UTC.
//
// The cron does not pass the scheduled time to a run. If a run is delayed until the next scheduled
// time, by [cron.DelayIfStillRunning] or another wrapper of the cron, it counts as the run of that
// time: the two run one time.
func (c *Cron) Add(ctx context.Context, spec, name string, f func(ctx context.Context) error) (cron.EntryID, error) {
	schedule, err := c.read(spec)
	if err != nil {
		return 0, fmt.Errorf("robfigcron: job %q: %w", name, err)
	}
	added := make(chan struct{})
	var id cron.EntryID
	id = c.cron.Schedule(schedule, cron.FuncJob(func() {
		<-added
		c.fire(ctx, id, name, f)
	}))
	close(added)
	return id, nil
}

// read parses a schedule as the cron does. The cron does not export its parser, so read adds an
// entry that does nothing and returns its schedule.
func (c *Cron) read(spec string) (cron.Schedule, error) {
	id, err := c.cron.AddFunc(spec, func() {})
	if err != nil {
		return nil, err
	}
	defer c.cron.Remove(id)
	schedule := c.cron.Entry(id).Schedule
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return byTheClock(every.Delay), nil
	}
	return schedule, nil
}

// byTheClock is a schedule of multiples of a duration. If each process counted from its own start,
// the runs of two processes would be up to that duration apart, and a run is stored only for as
// long as clocks may differ.
type byTheClock time.Duration

// Next returns the first scheduled time after t.
func (b byTheClock) Next(t time.Time) time.Time {
	every := time.Duration(b)
	return t.Truncate(every).Add(every)
}

// fire runs a job that the cron has started.
func (c *Cron) fire(ctx context.Context, id cron.EntryID, name string, f func(ctx context.Context) error) {
	entry := c.cron.Entry(id)
	if !entry.Valid() {
		return // the entry was removed meanwhile
	}
	// The cron returns the entry only after it has started all due jobs: Prev is the scheduled time
	// of this run, or a later one if this run was delayed for that long. Counting the scheduled
	// times would not be better: a wrapper may also drop runs, as cron.SkipIfStillRunning does, and
	// then every later run would count as a run of the past.
	at := entry.Prev
	began := time.Now()
	if ran, err := c.jobs.Run(ctx, name, at, f); err != nil {
		c.log.ErrorContext(ctx, "a job failed", "ran", ran, "job", name, "fire", at, "took", time.Since(began), "error", err)
	}
}
