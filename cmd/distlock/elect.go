package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

// A campaign is one call of elect.
type campaign struct {
	job       // runs the command
	argv      []string
	value     string
	preferred bool

	ended       error // the result of the last run of the command
	interrupted bool  // a signal arrived during the last run
}

func (a *app) elect() *cobra.Command {
	e := &campaign{job: job{app: a, onLost: "stop"}}
	c := &cobra.Command{
		Use:   "elect [flags] NAME [--] COMMAND [ARG...]",
		Short: "Stand for election, and run a command while this process is the leader",
		Long: "Stand for election, and run a command while this process is the leader. If the leader " +
			"fails, another candidate runs the command. If elect loses leadership, it stops the " +
			"command; if the command exits with 0, it releases leadership. In both cases elect stands " +
			"for election again. Any other exit code ends elect.",
		Example: "  distlock elect scheduler -- ./scheduler\n" +
			"  distlock elect scheduler --value 10.0.0.1:8080 --preferred -- ./scheduler",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("NAME is missing")
			}
			return nil
		},
		RunE:              func(c *cobra.Command, args []string) error { return e.main(c, args) },
		ValidArgsFunction: a.completeNames,
	}
	f := c.Flags()
	f.SetInterspersed(false) // flags after COMMAND belong to the command
	f.StringVar(&e.value, "value", "", "a value that the leader publishes, such as its address")
	f.BoolVar(&e.preferred, "preferred", false, "make a leader that is not preferred step down: its command gets TERM")
	f.DurationVar(&e.ttl, "ttl", 30*time.Second, "how long the store keeps a leader after each renewal")
	f.StringVar(&e.holder, "holder", "", "the name of the candidate, shown to people (host:process)")
	f.StringVar(&e.note, "note", "", "a note, shown to people")
	f.DurationVar(&e.grace, "grace", 5*time.Second, "the time between TERM and KILL; at most TTL/3")
	f.BoolVarP(&e.quiet, "quiet", "q", false, "print nothing when leadership is lost")
	return c
}

func (e *campaign) main(c *cobra.Command, args []string) error {
	e.name = args[0]
	if err := c.Flags().Parse(args[1:]); err != nil { // flags may also follow NAME
		return flagError(c, err)
	}
	if help, err := c.Flags().GetBool("help"); err == nil && help {
		return c.Help()
	}
	if e.argv = c.Flags().Args(); len(e.argv) == 0 {
		return usage("COMMAND is missing")
	}
	locker, err := e.locker(c)
	if err != nil {
		return err
	}
	e.logFormat = "text"
	if err := errors.Join(e.lockFlags.check(e.app), e.job.check()); err != nil {
		return err
	}
	e.try = true // no MaxWait: a candidate waits until it is elected
	opts, err := e.options(e.app)
	if err != nil {
		return err
	}
	if err := e.find(e.argv); err != nil { // before the wait, so that a typo fails at once
		return err
	}
	// The pause keeps a command that ends at once from being started a hundred times a second.
	opts = append(opts, distlock.Value([]byte(e.value)), distlock.Backoff(time.Second, time.Second))
	if e.preferred {
		opts = append(opts, distlock.Preferred())
	}
	election, err := locker.Election(opts...)
	if err != nil {
		return err
	}
	return e.run(c.Context(), election)
}

// run stands for election until the command fails or a signal arrives.
func (e *campaign) run(parent context.Context, election *distlock.Election) error {
	e.sigs = make(chan os.Signal, 16)
	notify(e.sigs, forwarded()...)
	notify(make(chan os.Signal, 1), syscall.SIGPIPE) // for the same reason as in job.hold
	ctx, stop := interruptible(parent)
	defer stop()
	err := election.Run(ctx, e.name, e.lead)
	var sig signalError
	switch {
	case !errors.As(context.Cause(ctx), &sig):
		return err
	case e.interrupted:
		return e.ended
	}
	return &exitError{exitSignal + int(sig.sig), nil}
}

// lead runs the command for one term.
func (e *campaign) lead(ctx context.Context, _ *distlock.Term) error {
	lease := distlock.FromContext(ctx)
	if err := e.find(e.argv); err != nil {
		return err
	}
	if lease.Ensure(ctx, e.grace+e.ttl/10) != nil {
		return nil
	}
	if e.drain() {
		<-ctx.Done() // the same signal ends ctx, perhaps a moment later
	}
	if ctx.Err() != nil {
		return nil
	}
	e.child.Env = environment(lease, e.holder)
	// Each term has a channel of its own, so that the command of a later term is not stopped.
	resign := make(chan struct{})
	e.resign = resign
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), distlock.ErrStepDown) {
			close(resign)
		}
	})
	defer stop()
	err := e.supervise(lease)
	e.ended = err
	if e.ending {
		<-ctx.Done() // the same signal ends ctx, perhaps a moment later
	}
	var sig signalError
	e.interrupted = errors.As(context.Cause(ctx), &sig)
	var verdict *exitError
	if errors.As(err, &verdict) && verdict.code == exitLost && verdict.err != nil {
		if !e.quiet {
			e.say("%v", verdict.err)
		}
		return nil // Run stands for election again
	}
	return err
}

// drain discards the signals that arrived while no command ran: they are not meant for the next
// command. It reports whether one of them ends this process.
func (e *campaign) drain() (ending bool) {
	for {
		select {
		case s := <-e.sigs:
			ending = ending || ends(s.(syscall.Signal))
		default:
			return ending
		}
	}
}
