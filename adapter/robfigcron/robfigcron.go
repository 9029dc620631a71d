// Package robfigcron joins distlock to the scheduler robfig/cron: jobs that the crons of several processes fire run one time for each
// fire, though the clocks differ, and not while an earlier fire is still running. See distlock.Cron for what that means when a process dies.
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

// New returns a Cron that runs jobs by jobs when c fires them. What goes wrong with a job is told to log; nil is slog.Default.
func New(c *cron.Cron, jobs *distlock.Cron, log *slog.Logger) *Cron {
	if log == nil {
		log = slog.Default()
	}
	return &Cron{c, jobs, log}
}

// Add adds a job, as AddFunc of the cron does. Its context ends with ctx, and when the job's lease is lost.
//
// A job is known by its name, and a fire by the time that the schedule gives, so all processes add a job with the same name and
// the same schedule, read in the same time zone. "@every 5m" would count from when the process began, which no other knows. A job with such
// a schedule is fired when the clock comes to a multiple of five minutes instead, counted in UTC.
//
// The cron tells no run for which fire it was begun. A run that is held back until the next fire is due, by cron.DelayIfStillRunning or another
// wrapper of the cron, is taken for that fire: the two are run one time.
func (c *Cron) Add(ctx context.Context, spec, name string, f func(ctx context.Context) error) (cron.EntryID, error) {
	schedule, err := c.read(spec)
	if err != nil {
		return 0, fmt.Errorf("robfig: job %q: %w", name, err)
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

// read reads a schedule as the cron does. It keeps its parser to itself, so an entry that does nothing has to tell.
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

// byTheClock fires at multiples of a time. Fires that each process counts from its own beginning would be up to that time apart, and a
// fire is remembered for as long as clocks differ.
type byTheClock time.Duration

// Next returns the first fire after t.
func (b byTheClock) Next(t time.Time) time.Time {
	every := time.Duration(b)
	return t.Truncate(every).Add(every)
}

// fire runs a job that the cron has fired.
func (c *Cron) fire(ctx context.Context, id cron.EntryID, name string, f func(ctx context.Context) error) {
	entry := c.cron.Entry(id)
	if !entry.Valid() {
		return // it was removed meanwhile
	}
	// The cron answers only when it is done with firing: Prev is this fire, or a later one if this run was held back for so long. Counting the
	// fires that the schedule gave would not tell more: a wrapper may drop runs as well, as cron.SkipIfStillRunning does, and then
	// every later run would be taken for a fire of the past.
	at := entry.Prev
	began := time.Now()
	if ran, err := c.jobs.Run(ctx, name, at, f); err != nil {
		c.log.ErrorContext(ctx, "a job failed", "ran", ran, "job", name, "fire", at, "took", time.Since(began), "error", err)
	}
}
