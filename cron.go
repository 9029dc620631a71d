package distlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/names"
)

// maxJob is how many bytes the name of a job may have, so that the time of a fire fits behind it.
const maxJob = maxName - len("@2006-01-02T15:04:05.999999999Z")

// A Cron runs a job one time for each fire, although several schedulers fire it and their clocks
// differ. If a process dies while it runs a job, the fire is not done, unless the clock of another
// scheduler reaches it later: then the job runs again.
type Cron struct {
	once    *Once[struct{}]
	overlap bool
}

// CronOptions are the options of a [Cron]. The zero value is good.
type CronOptions struct {
	// Keep is how long a fire is remembered after its job has ended: longer than the clocks of the
	// schedulers can differ. 0 means 1 h.
	Keep time.Duration

	// Overlap runs a job although an earlier fire of it is still running. By default that fire is
	// skipped.
	Overlap bool
}

// Cron returns a Cron; nil for o is the zero [CronOptions]. The error is [errors.ErrUnsupported] if
// the store cannot keep a record.
func (l *Locker) Cron(o *CronOptions, opts ...Option) (*Cron, error) {
	if o == nil {
		o = &CronOptions{}
	}
	keep := o.Keep
	if keep == 0 {
		keep = time.Hour
	}
	once, err := NewOnce[struct{}](l, keep, nil, opts...)
	if err != nil {
		return nil, err
	}
	if _, err := l.defaults.with(slices.Concat(opts, []Option{noWait}), l.features); err != nil {
		return nil, err
	}
	return &Cron{once, o.Overlap}, nil
}

// Run runs f for the fire of a job, unless that fire ran or runs already, or an earlier one still
// runs. It reports whether it ran f: a fire that is skipped is no error. An error is that of f, or
// says that the store failed: it is [ErrNotAcquired] if ran is false. A job that fails or panics
// has run, and the panic continues.
//
// A fire is known by the name and the time for which it was planned. That time has to be the same
// in all schedulers: not the time at which one of them started the job. The name has at most 224
// bytes.
//
// Unless jobs may overlap, f runs under the lock of the name, and its context carries that lease.
func (c *Cron) Run(ctx context.Context, name string, fire time.Time, f func(ctx context.Context) error) (ran bool, err error) {
	defer func() { err = outcome(ran, err) }()
	if f == nil {
		return false, errNilFunc
	}
	if err := checkName(name); err != nil {
		return false, err
	}
	if len(name) > maxJob {
		return false, invalid("name", "%s has %d bytes, more than the %d of a job", names.Quote(name), len(name), maxJob)
	}
	key := name + "@" + fire.UTC().Format(time.RFC3339Nano)
	own, once := false, *c.once
	// A job that failed, or panicked, has run: a late scheduler must not run it again. The error
	// does not show that: a job may return the error of another job, which could not begin.
	once.o.Failures = func(error) bool { return ran }
	_, err = once.Do(ctx, key, func(ctx context.Context) (struct{}, error) {
		own = true
		return struct{}{}, c.start(ctx, name, func(ctx context.Context) error {
			ran = true
			return f(ctx)
		})
	}, MaxWait(0))
	var past *PastError
	if !own && (errors.Is(err, ErrHeld) || errors.As(err, &past)) {
		return false, nil // another runs it, or ran it
	}
	return ran, err
}

// start runs f under the lock of the job, if it is free.
func (c *Cron) start(ctx context.Context, name string, f func(ctx context.Context) error) error {
	if c.overlap {
		return f(ctx)
	}
	_, err := c.once.l.TryDo(ctx, name, f, c.once.opts...)
	return err
}
