// Package gocronlock joins distlock to the scheduler go-co-op/gocron: a Locker and an Elector for schedulers of several processes.
//
// A Locker takes the lock of a job for each of its runs. It spreads jobs over the processes and bridges clocks that differ. An Elector
// lets one process run all jobs. Neither can tell a running job that its lock was lost, since gocron has no way to: a job that must
// not run beside another takes a lock of its own, or is run by distlock.Cron.
package gocronlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A Locker is the lock of jobs, for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker.
type Locker struct {
	l        *distlock.Locker
	patience time.Duration // how long a lock is asked for
}

// NewLocker returns a Locker on a store. The lock of a job is held while it runs, and at least for splay: a scheduler whose clock is
// late finds it taken though the run has ended. So splay has to be longer than the clocks differ, and shorter than the
// period of the job less that. It is errors.ErrUnsupported if the store keeps no claim without its process.
//
// On a store that has no line, such as a majority, schedulers that ask at the same moment may all be refused, each because of the others. There
// a lock is asked for again for half of splay, and held for half of splay longer.
func NewLocker(store driver.Store, splay time.Duration, opts ...distlock.Option) (*Locker, error) {
	patience := time.Duration(0)
	if store != nil && !store.Features().Queue {
		patience = splay / 2
	}
	// Whoever asks last, and asks for as long as it may, must still find the lock taken.
	l, err := distlock.New(store, append(opts[:len(opts):len(opts)], distlock.AtLeast(splay+patience))...)
	if err != nil {
		return nil, err
	}
	return &Locker{l, patience}, nil
}

// Lock takes the lock of a job, or returns distlock.ErrHeld: gocron skips the run then. Every error
// is distlock.ErrNotAcquired.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.l.Lock(ctx, key, distlock.MaxWait(l.patience))
	if err != nil {
		return nil, err // and no Lock that is a nil *Lease
	}
	return lease, nil
}

// Close gives back the locks of jobs that run. Shut the scheduler down first.
func (l *Locker) Close(ctx context.Context) error { return l.l.Close(ctx) }

// ErrNotLeader says that another process runs the jobs. It is distlock.ErrNotAcquired.
var ErrNotLeader error = notLeader{}

type notLeader struct{}

func (notLeader) Error() string { return "gocron: not the leader" }
func (notLeader) Unwrap() error { return distlock.ErrNotAcquired }

// An Elector lets one process run all jobs, for gocron.WithDistributedElector. When leadership passes on, a job may be run
// twice for one fire, or not at all, if the clocks of the two leaders differ.
type Elector struct {
	stop context.CancelFunc
	done chan struct{}
	err  atomic.Pointer[error]           // why it does not stand
	term atomic.Pointer[context.Context] // of the current term
}

// standAgain is how long an Elector pauses after the store could not be used.
const standAgain = 5 * time.Second

// NewElector begins to stand for election, until Close. A store that cannot be used is tried again.
func NewElector(e *distlock.Election) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	out := &Elector{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		for {
			err := e.Run(ctx, out.lead)
			out.err.Store(&err)
			if ctx.Err() != nil || !errors.Is(err, distlock.ErrUnavailable) && !errors.Is(err, distlock.ErrUnknown) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(standAgain):
			}
		}
	}()
	return out
}

// lead is a term.
func (e *Elector) lead(ctx context.Context, _ *distlock.Term) error {
	e.err.Store(nil)
	e.term.Store(&ctx)
	<-ctx.Done()
	return nil
}

// IsLeader returns nil if this process leads now, by its own clock and without asking the store; otherwise ErrNotLeader, or why the
// election failed.
func (e *Elector) IsLeader(context.Context) error {
	if term := e.term.Load(); term != nil && (*term).Err() == nil {
		return nil
	}
	if err := e.err.Load(); err != nil {
		return errors.Join(ErrNotLeader, *err)
	}
	return ErrNotLeader
}

// Close resigns. Shut the scheduler down first: Close does not wait for jobs.
func (e *Elector) Close() {
	e.stop()
	<-e.done
}

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)
