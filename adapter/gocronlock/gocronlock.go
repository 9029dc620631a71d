// Package gocronlock connects distributed locks to the scheduler go-co-op/gocron. It has a [Locker]
// and an [Elector], for schedulers in several processes.
//
// A Locker acquires the lock of a job for each of its runs. It distributes the jobs over the
// processes, and tolerates clocks that differ. An Elector lets one process run all jobs.
//
// Neither can cancel a running job whose lock was lost, because gocron has no way to do that. If a
// job must never run twice at the same time, let the job acquire its own lock, or run it by
// [distlock.Cron].
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

// A Locker locks jobs, for [gocron.WithDistributedLocker] and [gocron.WithDistributedJobLocker].
type Locker struct {
	l        *distlock.Locker
	patience time.Duration // how long Lock waits
}

// NewLocker returns a [Locker] on a store. The lock of a job is held while the job runs, and at
// least for splay: a scheduler whose clock is late finds the lock held although the run has ended.
// So splay must be longer than the clocks differ, and shorter than the period of the job minus that
// difference. The error is [errors.ErrUnsupported] if the store cannot keep a claim after its
// process has ended.
//
// On a store without a queue, such as a majority, schedulers that start at the same moment may all
// be refused, each because of the others. On such a store [Locker.Lock] retries for half of splay,
// and the lock is held for half of splay longer.
func NewLocker(store driver.Store, splay time.Duration, opts ...distlock.Option) (*Locker, error) {
	patience := time.Duration(0)
	if store != nil && !store.Features().Queue {
		patience = splay / 2
	}
	// A scheduler that starts last, and retries for its whole patience, must still find the lock
	// held.
	l, err := distlock.New(store, append(opts[:len(opts):len(opts)], distlock.MinHold(splay+patience))...)
	if err != nil {
		return nil, err
	}
	return &Locker{l, patience}, nil
}

// Lock acquires the lock of a job, or returns [distlock.ErrHeld]: gocron skips the run then. Every
// error is [distlock.ErrNotAcquired].
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.l.Lock(ctx, key, distlock.MaxWait(l.patience))
	if err != nil {
		return nil, err // not a gocron.Lock that contains a nil *Lease
	}
	return lease, nil
}

// Close releases the locks of running jobs. Shut the scheduler down first.
func (l *Locker) Close(ctx context.Context) error { return l.l.Close(ctx) }

// ErrNotLeader means that another process runs the jobs. It is a [distlock.ErrNotAcquired].
var ErrNotLeader error = notLeader{}

type notLeader struct{}

func (notLeader) Error() string { return "gocronlock: not the leader" }
func (notLeader) Unwrap() error { return distlock.ErrNotAcquired }

// An Elector lets one process run all jobs, for [gocron.WithDistributedElector]. When leadership
// moves to another process, a job may run twice for one scheduled time, or not at all, if the
// clocks of the two leaders differ.
type Elector struct {
	stop context.CancelFunc
	done chan struct{}
	err  atomic.Pointer[error]           // why it is no candidate
	term atomic.Pointer[context.Context] // of the current term
}

// retryPause is how long an Elector pauses after the store has failed.
const retryPause = 5 * time.Second

// NewElector returns an [Elector] that is a candidate for a name until [Elector.Close]. It retries
// when the store fails. The schedulers of one set of jobs have the same name.
func NewElector(e *distlock.Election, name string) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	out := &Elector{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		for {
			err := e.Run(ctx, name, out.lead)
			out.err.Store(&err)
			if ctx.Err() != nil || !errors.Is(err, distlock.ErrUnavailable) && !errors.Is(err, distlock.ErrUnknown) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(retryPause):
			}
		}
	}()
	return out
}

// lead is one term of leadership.
func (e *Elector) lead(ctx context.Context, _ *distlock.Term) error {
	e.err.Store(nil)
	e.term.Store(&ctx)
	<-ctx.Done()
	return nil
}

// IsLeader returns nil if this process leads now. It compares the local clock and does not call the
// store. Otherwise it returns [ErrNotLeader], joined with the error of the election if that failed.
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
