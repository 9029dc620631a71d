package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func (a *app) wait() *cobra.Command {
	var of target
	var most time.Duration
	c := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a lock is free, without acquiring it",
		Long: "Wait until a lock is free, without acquiring it. With --kind, wait until a slot or a " +
			"pass is left, until a result is forgotten, or until there is no leader.",
		Example:           "  distlock wait deploy && echo free\n  distlock wait gpu --kind sem -w 10m",
		Args:              exact("NAME"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().DurationVarP(&most, "wait", "w", 0, "wait at most `D` (for ever)")
	of.flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		if most < 0 {
			return usage("--wait is %v, want 0s or more", most)
		}
		key, err := of.check(c, args[0])
		if err != nil {
			return err
		}
		ctx, stop := interruptible(c.Context())
		defer stop()
		// The watch begins before the first check, so that no wake-up is missed in between.
		wakes := driver.Watch(ctx, a.source.Store, driver.ID{Key: key})
		var deadline <-chan time.Time
		if a.config.from["wait"] > fromDefault {
			deadline = time.After(most)
		}
		return a.untilFree(ctx, l, &of, wakes, deadline)
	}
	return c
}

// untilFree checks the target after every wake-up, and at least once a second, until it is free.
func (a *app) untilFree(
	ctx context.Context, l *distlock.Locker, of *target, wakes <-chan driver.Wake, deadline <-chan time.Time,
) error {
	for first := true; ; first = false {
		status, err := l.Status(ctx, of.kind, of.name)
		var sig signalError
		switch {
		case errors.As(context.Cause(ctx), &sig):
			return &exitError{exitSignal + int(sig.sig), nil}
		case err != nil && (first || errors.Is(err, errors.ErrUnsupported)):
			return err
		case err == nil && !full(status):
			if !first {
				return nil
			}
			if other := of.others(ctx, l, full); other != "" {
				a.say("the lock %s is free, but not the %s of that name", clean(of.name), other)
			}
			return nil
		}
		again := time.NewTimer(time.Second)
		select {
		case <-wakes:
		case <-again.C:
		case <-ctx.Done():
		case <-deadline:
			if err == nil && len(status.Holders) > 0 {
				h := status.Holders[0]
				return &exitError{exitBusy, errors.New(title(of.kind, of.name) + " is " + heldBy(h))}
			}
			return &exitError{exitBusy, errors.New(title(of.kind, of.name) + " is not free")}
		}
		again.Stop()
	}
}
