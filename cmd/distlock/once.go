package main

import (
	"context"
	"errors"
	"strings"

	"github.com/distlock/distlock"
)

// holdOnce calls [job.hold], unless the command has already succeeded for the key. If another
// process runs the command for the key, holdOnce waits for that process as for the lock.
func (j *job) holdOnce(parent context.Context, locker *distlock.Locker, opts []distlock.Option) error {
	once, err := distlock.NewOnce[int](locker, j.keep, nil, opts...)
	if err != nil {
		return err
	}
	var noWait []distlock.Option
	if j.try {
		noWait = append(noWait, distlock.MaxWait(0))
	}
	ctx, stop := interruptible(parent) // hold forwards signals while the command runs
	defer stop()
	j.report.begin(j.name, 0, nil)
	ran := false
	record := recordName(j.name, j.once)
	_, err = once.Do(ctx, record, func(ctx context.Context) (int, error) {
		ran = true
		return 0, j.hold(ctx, locker, opts)
	}, noWait...)
	var sig signalError
	switch {
	case errors.Is(err, distlock.ErrNotRecorded):
		return &exitError{exitLost, errors.New(j.name + ": the command ran, but the run could not be recorded: it may run again")}
	case ran || err == nil:
		return err
	case errors.As(context.Cause(ctx), &sig):
		return &exitError{exitSignal + int(sig.sig), nil}
	case errors.Is(err, distlock.ErrHeld):
		return j.busyError(busyMessage(record, err))
	}
	return err
}

// recordName returns the name of the record of a job for a key. An @ in the name of the job is
// written as %40, so that no other job and key have the same record.
func recordName(name, key string) string {
	return strings.NewReplacer("%", "%25", "@", "%40").Replace(name) + "@" + key
}
