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
		Use:               "wait NAME",
		Short:             "Wait until a lock is free, without taking it",
		Long:              "Wait until a lock is free, without taking it; or with --kind until there is a slot or a pass left, until a result is forgotten, until nobody leads.",
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
		// The watch comes before the first look, or the news could fall in between.
		news := driver.Watch(ctx, a.source.Store, driver.ID{Key: key})
		var over <-chan time.Time
		if a.config.from["wait"] > fromDefault {
			over = time.After(most)
		}
		return a.untilFree(ctx, l, &of, news, over)
	}
	return c
}

// untilFree looks again at news, and once a second without.
func (a *app) untilFree(ctx context.Context, l *distlock.Locker, of *target, news <-chan driver.Wake, over <-chan time.Time) error {
	for first := true; ; first = false {
		why, err := of.why(ctx, l)
		var sig signalError
		switch {
		case errors.As(context.Cause(ctx), &sig):
			return &exitError{exitSignal + int(sig.sig), nil}
		case err != nil && (first || errors.Is(err, errors.ErrUnsupported)):
			return err
		case err == nil && !full(why):
			if !first {
				return nil
			}
			if other := of.others(ctx, l, full); other != "" {
				a.say("the lock of %s is free, but not its %s", clean(of.name), other)
			}
			return nil
		}
		again := time.NewTimer(time.Second)
		select {
		case <-news:
		case <-again.C:
		case <-ctx.Done():
		case <-over:
			if err == nil && len(why.Holders) > 0 {
				h := why.Holders[0]
				return &exitError{exitBusy, errors.New(title(of.kind, of.name) + " is " + heldBy(h))}
			}
			return &exitError{exitBusy, errors.New(title(of.kind, of.name) + " is not free")}
		}
		again.Stop()
	}
}
