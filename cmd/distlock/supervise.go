package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/distlock/distlock"
)

// checkInterval is the longest time between two checks of the lease's end. A renewal moves the end,
// and timers do not count the time for which the machine was suspended.
const checkInterval = time.Second

// supervise runs the child until it has ended, and forwards signals. If the lease cannot be
// renewed, it ends the child before the lease ends. It returns the result of the child, or the
// reason for which it stopped the child.
//
//	last good renewal sent                      TERM          KILL    a rival may start
//	|-------------------------------------------|--- grace ---|- margin -|
//	                                                          lease.Until
func (j *job) supervise(lease *distlock.Lease) error {
	j.group = !isTerminal(j.in) && !isTerminal(j.out) && !isTerminal(j.app.err)
	ended, err := j.start()
	if err != nil {
		code := exitNotFound
		if !errors.Is(err, syscall.ENOENT) {
			code = exitNotRunnable
		}
		return &exitError{code, err}
	}
	var (
		lost    = lease.Done()
		resign  = j.resign
		maxRun  <-chan time.Time // ends the time of --max-run
		kill    killTimer
		verdict error // why the child is being stopped
		check   = time.NewTimer(0)
	)
	defer check.Stop()
	if j.maxRun > 0 {
		t := time.NewTimer(j.maxRun)
		defer t.Stop()
		maxRun = t.C
	}
	stop := func(grace time.Duration, why error) {
		if verdict == nil {
			verdict = why
			j.signal(syscall.SIGTERM)
		}
		if grace <= 0 {
			j.signal(syscall.SIGKILL)
			return
		}
		kill.start(grace)
	}
	for {
		select {
		case err := <-ended:
			if verdict != nil {
				j.signal(syscall.SIGKILL) // for processes that the child has started and that still run
				return verdict
			}
			return childError(err)
		case s := <-j.sigs:
			sig := s.(syscall.Signal)
			j.ending = j.ending || ends(sig)
			j.forward(sig)
		case <-resign:
			resign = nil
			j.signal(syscall.SIGTERM)
		case <-maxRun:
			stop(j.grace, &exitError{exitMaxRun, fmt.Errorf("%s: stopped after %v", j.name, j.maxRun)})
		case <-kill.expired:
			j.signal(syscall.SIGKILL)
		case <-lost:
			lost = nil
			grace := j.grace
			var why *distlock.LostError
			if errors.As(lease.Err(), &why) && why.Reason == distlock.LossExpired {
				grace = 0 // a rival may start after the margin
			}
			if j.onLost == "warn" {
				j.say("warning: %s: %v", j.name, lease.Err())
				continue
			}
			stop(grace, &exitError{
				exitLost, fmt.Errorf("%s: the lock was lost, the command was stopped: %w", j.name, lease.Err()),
			})
		case <-check.C:
			left := time.Until(lease.Until()) // not valid for a lease that has ended: lost handles that
			if lost == nil || j.onLost == "warn" || lease.Err() != nil {
				continue
			}
			if left > j.grace {
				check.Reset(min(left-j.grace, checkInterval))
				continue
			}
			stop(left, &exitError{
				exitLost, fmt.Errorf("%s: the lock could not be renewed in time, the command was stopped", j.name),
			})
		}
	}
}

// A killTimer is the time between TERM and KILL.
type killTimer struct {
	expired <-chan time.Time
	at      time.Time // when expired receives
}

// start starts the timer. A second call may make the time shorter, but not longer: a second reason
// to stop gives the child no more time than the first one did.
func (k *killTimer) start(d time.Duration) {
	if at := time.Now().Add(d); k.expired == nil || at.Before(k.at) {
		k.expired, k.at = time.After(d), at
	}
}

// start starts the child. The channel receives the result of the child.
func (j *job) start() (<-chan error, error) {
	j.child.SysProcAttr = attributes(j.group)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// Linux kills the child when the thread that started it ends. LockOSThread keeps the thread
		// alive until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := j.child.Start()
		started <- err
		if err == nil {
			ended <- j.child.Wait()
		}
	}()
	return ended, <-started
}

// childError returns the error with the exit code for the result of the child. It is nil for
// success.
func childError(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case !errors.As(err, &exit):
		return &exitError{exitFailed, err}
	}
	if sig, ok := killedBy(exit); ok {
		return &exitError{exitSignal + int(sig), nil}
	}
	return &exitError{exit.ExitCode(), nil}
}
