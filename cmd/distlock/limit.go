package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

// A quota is one call of limit.
type quota struct {
	job    // runs the command
	rate   string
	weight int64
}

func (a *app) limit() *cobra.Command {
	q := &quota{job: job{app: a}}
	c := &cobra.Command{
		Use:   "limit [flags] KEY [--] [COMMAND [ARG...]]",
		Short: "Run a command at most N times in any span of time, on all hosts together",
		Long: "Run a command at most N times in any span of time, on all hosts together. Without a " +
			"COMMAND, limit only counts, and its exit code reports whether the call is within the " +
			"limit.",
		Example: "  distlock limit partner-api --rate 10/1m -- ./call.sh\n" +
			"  distlock limit mail --rate 100/1h --wait 10m -- ./send.sh",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("KEY is missing")
			}
			return nil
		},
		RunE:              func(c *cobra.Command, args []string) error { return q.main(c, args) },
		ValidArgsFunction: a.completeNames,
	}
	f := c.Flags()
	f.SetInterspersed(false) // flags after COMMAND belong to the command
	f.StringVar(&q.rate, "rate", "", "at most N calls in any time D: `N/D`, as 10/1m")
	f.DurationVarP(&q.lockFlags.wait, "wait", "w", 0, "wait at most `D` (do not wait)")
	f.Int64Var(&q.weight, "weight", 1, "count the command as `N`")
	f.IntVarP(&q.busy, "busy-exit-code", "E", exitBusy, "exit with `N` if the limit is reached; 0 also prints nothing")
	f.StringVar(&q.holder, "holder", "", "the name of the caller, shown to people (host:process)")
	f.BoolVarP(&q.quiet, "quiet", "q", false, "print nothing if the limit is reached")
	return c
}

func (q *quota) main(c *cobra.Command, args []string) error {
	q.name = args[0]
	if err := c.Flags().Parse(args[1:]); err != nil { // flags may also follow KEY
		return flagError(c, err)
	}
	if help, err := c.Flags().GetBool("help"); err == nil && help {
		return c.Help()
	}
	locker, err := q.locker(c)
	if err != nil {
		return err
	}
	if err := q.lockFlags.check(q.app); err != nil {
		return err
	}
	n, window, err := parseRate(q.rate)
	if err != nil {
		return err
	}
	if argv := c.Flags().Args(); len(argv) > 0 {
		if err := q.find(argv); err != nil { // a command that cannot run is not counted
			return err
		}
	}
	limiter, err := locker.Limiter(n, window)
	if err != nil {
		return err
	}
	if err := q.count(c.Context(), limiter); err != nil || q.child == nil {
		return err
	}
	return q.follow()
}

// parseRate reads a rate like 10/1m.
func parseRate(s string) (n int64, window time.Duration, err error) {
	count, span, ok := strings.Cut(s, "/")
	n, errCount := strconv.ParseInt(count, 10, 64)
	window, errSpan := time.ParseDuration(span)
	if !ok || errCount != nil || errSpan != nil {
		return 0, 0, usage("--rate is %.64q, want N/D, as 10/1m", s)
	}
	return n, window, nil
}

// count counts the call, and waits for up to --wait if the limit is reached. A signal ends the
// wait.
func (q *quota) count(parent context.Context, l *distlock.Limiter) error {
	ctx, stop := interruptible(parent)
	defer stop()
	// This process counts one call and ends, so the surplus of a share would be lost.
	err := l.Wait(ctx, q.name, distlock.Exact(),
		distlock.MaxWait(q.lockFlags.wait), distlock.Weight(q.weight), distlock.Holder(q.holder))
	var sig signalError
	var limited *distlock.LimitError
	switch {
	case err != nil && errors.As(context.Cause(ctx), &sig):
		return &exitError{exitSignal + int(sig.sig), nil}
	case errors.As(err, &limited):
		return q.busyError(errors.New(strings.TrimPrefix(limited.Error(), "distlock: ")))
	}
	return err
}

// follow runs the command and forwards signals. No lock is held meanwhile.
func (q *quota) follow() error {
	q.sigs = make(chan os.Signal, 16)
	notify(q.sigs, forwarded()...)
	q.group = !isTerminal(q.in) && !isTerminal(q.out) && !isTerminal(q.app.err)
	ended, err := q.start()
	if err != nil {
		code := exitNotFound
		if !errors.Is(err, syscall.ENOENT) {
			code = exitNotRunnable
		}
		return &exitError{code, err}
	}
	for {
		select {
		case err := <-ended:
			return childError(err)
		case s := <-q.sigs:
			q.forward(s.(syscall.Signal))
		}
	}
}
