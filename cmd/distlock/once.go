package main

import (
	"context"
	"errors"
	"strings"

	"github.com/distlock/distlock"
)

// holdOnce is hold, unless the command has succeeded for the key before. If it is being run elsewhere for the key, that
// is waited for as for the lock.
func (j *job) holdOnce(parent context.Context, locker *distlock.Locker, opts []distlock.Option) error {
	once, err := distlock.NewOnce[int](locker, j.keep, nil, opts...)
	if err != nil {
		return err
	}
	var now []distlock.Option
	if j.try {
		now = append(now, distlock.MaxWait(0))
	}
	ctx, stop := interruptible(parent) // hold passes signals on while the command runs
	defer stop()
	j.report.begin(j.name, 0, nil)
	ran := false
	record := recordName(j.name, j.once)
	_, err = once.Do(ctx, record, func(ctx context.Context) (int, error) {
		ran = true
		return 0, j.hold(ctx, locker, opts)
	}, now...)
	var sig signalError
	switch {
	case errors.Is(err, distlock.ErrNotRecorded):
		return &exitError{exitLost, errors.New(j.name + ": the command ran, and that could not be recorded: it may be run again")}
	case ran || err == nil:
		return err
	case errors.As(context.Cause(ctx), &sig):
		return &exitError{exitSignal + int(sig.sig), nil}
	case errors.Is(err, distlock.ErrHeld):
		return &exitError{j.busy, j.unless(j.quiet || j.busy == 0, busyLine(record, err))}
	}
	return err
}

// recordName is the name of the record of a job for a key. No other job and key have it: an @ in
// the name of the job is written as %40.
func recordName(name, key string) string {
	return strings.NewReplacer("%", "%25", "@", "%40").Replace(name) + "@" + key
}
