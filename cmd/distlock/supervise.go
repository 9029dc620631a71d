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

// glance is the longest time between two looks at the lease's end. A renewal moves it, and a machine that was
// suspended has lost time that timers do not count.
const glance = time.Second

// supervise runs the child until it has ended, passes signals on, and sees to it that it is gone before the
// lease is. What it returns is the way the child ended, or why it had to.
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
		struck  <-chan time.Time // --max-run
		kill    fuse
		verdict error // why the child is being stopped
		look    = time.NewTimer(0)
	)
	defer look.Stop()
	if j.maxRun > 0 {
		t := time.NewTimer(j.maxRun)
		defer t.Stop()
		struck = t.C
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
		kill.light(grace)
	}
	for {
		select {
		case err := <-ended:
			if verdict != nil {
				j.signal(syscall.SIGKILL) // what the child has left behind
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
		case <-struck:
			stop(j.grace, &exitError{exitMaxRun, fmt.Errorf("%s: stopped after %v", j.name, j.maxRun)})
		case <-kill.burnt:
			j.signal(syscall.SIGKILL)
		case <-lost:
			lost = nil
			grace := j.grace
			var why *distlock.LostError
			if errors.As(lease.Err(), &why) && why.Reason == distlock.LossExpired {
				grace = 0 // a rival may start a margin from now
			}
			if j.onLost == "warn" {
				j.say("warning: %s: %v", j.name, lease.Err())
				continue
			}
			stop(grace, &exitError{exitLost, fmt.Errorf("%s: the lock was lost, the command was stopped: %w", j.name, lease.Err())})
		case <-look.C:
			left := time.Until(lease.Until()) // of a lease that is over: long ago, and Done tells
			if lost == nil || j.onLost == "warn" || lease.Err() != nil {
				continue
			}
			if left > j.grace {
				look.Reset(min(left-j.grace, glance))
				continue
			}
			stop(left, &exitError{exitLost, fmt.Errorf("%s: the lock could not be renewed in time, the command was stopped", j.name)})
		}
	}
}

// A fuse burns for a while once it is lit.
type fuse struct {
	burnt <-chan time.Time
	at    time.Time // when it will be
}

// light lights it, or makes it shorter: a second reason to stop gives the child no more time than the first did.
func (f *fuse) light(d time.Duration) {
	if at := time.Now().Add(d); f.burnt == nil || at.Before(f.at) {
		f.burnt, f.at = time.After(d), at
	}
}

// start starts the child. What it returns tells how it ended.
func (j *job) start() (<-chan error, error) {
	j.child.SysProcAttr = attributes(j.group)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// Linux ends the child together with the thread that started it. So the thread must last as long.
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

// childError tells how the child ended: nil for success.
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
