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
	ended     error // how the command ended when it was last run
	told      bool  // a signal came while it ran
}

func (a *app) elect() *cobra.Command {
	e := &campaign{job: job{app: a, onLost: "stop"}}
	c := &cobra.Command{
		Use:   "elect [flags] NAME [--] COMMAND [ARG...]",
		Short: "Run a command in one place at a time, and elsewhere when that fails",
		Long: "Run a command in one place at a time, and elsewhere when that fails. Whoever is elected runs it. When leadership is lost the command is stopped, and " +
			"when it exits with 0 leadership is given back; then elect stands again. Any other exit code ends elect.",
		Example: "  distlock elect scheduler -- ./scheduler\n  distlock elect scheduler --value 10.0.0.1:8080 --preferred -- ./scheduler",
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
	f.SetInterspersed(false) // what stands after COMMAND is the command's own
	f.StringVar(&e.value, "value", "", "what the leader publishes: its address, say")
	f.BoolVar(&e.preferred, "preferred", false, "make a leader that is not preferred step down: its command gets TERM")
	f.DurationVar(&e.ttl, "ttl", 30*time.Second, "how long the store keeps a leader after each renewal")
	f.StringVar(&e.holder, "holder", "", "who it is, for people (host:process)")
	f.StringVar(&e.note, "note", "", "anything, for people")
	f.DurationVar(&e.grace, "grace", 5*time.Second, "between TERM and KILL; at most TTL/3")
	f.BoolVarP(&e.quiet, "quiet", "q", false, "say nothing about a term that was lost")
	return c
}

func (e *campaign) main(c *cobra.Command, args []string) error {
	e.name = args[0]
	if err := c.Flags().Parse(args[1:]); err != nil { // flags may stand after NAME too
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
	if err := errors.Join(e.ask.check(e.app), e.job.check()); err != nil {
		return err
	}
	opts, err := e.options(e.app)
	if err != nil {
		return err
	}
	if err := e.find(e.argv); err != nil { // before the wait: a typo is told at once
		return err
	}
	// A command that ends at once is not to be started a hundred times a second.
	opts = append(opts, distlock.Value([]byte(e.value)), distlock.Backoff(time.Second, time.Second))
	if e.preferred {
		opts = append(opts, distlock.Preferred())
	}
	election, err := locker.Election(e.name, opts...)
	if err != nil {
		return err
	}
	return e.run(c.Context(), election)
}

// run stands for election until the command fails or a signal comes.
func (e *campaign) run(parent context.Context, election *distlock.Election) error {
	e.sigs = make(chan os.Signal, 16)
	notify(e.sigs, forwarded()...)
	notify(make(chan os.Signal, 1), syscall.SIGPIPE) // as in hold
	ctx, stop := interruptible(parent)
	defer stop()
	err := election.Run(ctx, e.lead)
	var sig signalError
	switch {
	case !errors.As(context.Cause(ctx), &sig):
		return err
	case e.told:
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
		<-ctx.Done() // the campaign ends too, be it a moment later
	}
	if ctx.Err() != nil {
		return nil
	}
	e.child.Env = environment(lease, e.holder)
	resign := make(chan struct{}) // of this term: the next one's command must not hear of it
	e.resign = resign
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), distlock.ErrStepDown) {
			close(resign)
		}
	})
	defer stop()
	err := e.supervise(lease) //nolint:contextcheck // the child ends by its own rules, and is waited for
	e.ended = err
	if e.ending {
		<-ctx.Done() // the signal ends the campaign too, be it a moment later
	}
	var sig signalError
	e.told = errors.As(context.Cause(ctx), &sig)
	var verdict *exitError
	if errors.As(err, &verdict) && verdict.code == exitLost && verdict.err != nil {
		if !e.quiet {
			e.say("%v", verdict.err)
		}
		return nil // it stands again
	}
	return err
}

// drain takes the signals that came while there was no command, which are not for the next one. It reports whether one of them asks us to end.
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
