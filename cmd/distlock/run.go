package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A job is one call of run.
type job struct {
	*app
	ask
	name                   string
	command                string // -c
	atLeast, maxRun, grace time.Duration
	onLost, logFormat      string
	reportFile             string
	once                   string // a key: run one time for it
	keep                   time.Duration
	verbose, passHandle    bool

	sigs   chan os.Signal
	ending bool            // one that ends us was passed on
	resign <-chan struct{} // if closed, the child is to end
	child  *exec.Cmd
	group  bool   // the child has a process group of its own
	family family // whom to signal if it has none
	report
}

func (a *app) run() *cobra.Command {
	j := &job{app: a}
	c := &cobra.Command{
		Use:     "run [flags] NAME [--] COMMAND [ARG...]",
		Short:   "Hold a lock while a command runs",
		Example: "  distlock run deploy -- ./deploy.sh\n  distlock run -n -E 0 nightly -c 'make report | mail -s report ops'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("NAME is missing")
			}
			return nil
		},
		RunE:              func(c *cobra.Command, args []string) error { return j.main(c, args) },
		ValidArgsFunction: a.completeNames,
	}
	j.flags(c)
	f := c.Flags()
	f.SetInterspersed(false) // what stands after COMMAND is the command's own
	f.Int64Var(&j.slots, "slots", 0, "take one of `N` slots of the name, instead of its lock")
	f.StringVarP(&j.command, "command", "c", "", "run a `LINE` of shell")
	f.DurationVar(&j.atLeast, "at-least", 0, "keep the name taken until `D` since the grant, even if the command was quick")
	f.StringVar(&j.once, "once", "", "run one time for `KEY`, such as the time of a cron job: what succeeded is not run again")
	f.DurationVar(&j.keep, "keep", 24*time.Hour, "how long --once remembers")
	f.DurationVar(&j.maxRun, "max-run", 0, "stop the command after `D`, and exit with 124")
	f.DurationVar(&j.grace, "grace", 5*time.Second, "between TERM and KILL; at most TTL/3")
	f.StringVar(&j.onLost, "on-lost", "stop", "what to do when the lock is lost: `stop|warn`")
	f.BoolVarP(&j.verbose, "verbose", "v", false, "tell what happens")
	f.StringVar(&j.logFormat, "log-format", "text", "how -v tells it: `text|json`")
	f.StringVar(&j.reportFile, "report", "", "write one JSON object about the run to `FILE`")
	f.BoolVar(&j.passHandle, "pass-handle", false, "give the command the handle too, in DISTLOCK_LOCK_HANDLE: it is a secret")
	return c
}

func (j *job) main(c *cobra.Command, args []string) error {
	// Flags may stand after NAME too.
	j.name = args[0]
	if err := c.Flags().Parse(args[1:]); err != nil {
		return flagError(c, err)
	}
	if help, err := c.Flags().GetBool("help"); err == nil && help {
		return c.Help()
	}
	argv := c.Flags().Args()
	switch {
	case c.Flags().Changed("command") && len(argv) > 0:
		return usage("-c and a COMMAND exclude each other")
	case c.Flags().Changed("command"):
		argv = shell(j.command)
	case len(argv) == 0:
		return usage("COMMAND is missing")
	}
	j.asked = new(asked) // for the line about the wait, and the reason of a loss
	locker, err := j.locker(c)
	if err != nil {
		return err
	}
	if err := errors.Join(j.ask.check(j.app), j.check()); err != nil {
		return err
	}
	opts, err := j.options(j.app)
	if err != nil {
		return err
	}
	if err := j.find(argv); err != nil { // before the wait: a typo holds no queue
		return err
	}
	if err := j.nested(c.Context(), locker); err != nil {
		return err
	}
	opts = append(opts, distlock.Observe(j.observer()))
	if j.atLeast > 0 {
		opts = append(opts, distlock.AtLeast(j.atLeast))
	}
	if j.config.from["once"] > fromDefault {
		err = j.holdOnce(c.Context(), locker, opts)
	} else {
		err = j.hold(c.Context(), locker, opts)
	}
	j.report.Exit = 0
	if err != nil {
		j.report.Exit = exitCode(err)
	}
	if e := j.report.write(j.reportFile); e != nil {
		j.say("report: %v", e)
	}
	return err
}

func (j *job) check() error {
	switch {
	case j.onLost != "stop" && j.onLost != "warn":
		return usage("--on-lost is %.64q, want stop or warn", j.onLost)
	case j.logFormat != "text" && j.logFormat != "json":
		return usage("--log-format is %.64q, want text or json", j.logFormat)
	case j.quiet && j.verbose:
		return usage("--quiet and --verbose exclude each other")
	case j.slots < 0 || j.slots == 0 && j.config.from["slots"] > fromDefault:
		return usage("--slots is %d, want 1 or more", j.slots)
	case j.slots > 0 && j.ask.shared:
		return usage("--slots and --shared exclude each other")
	case j.atLeast < 0:
		return usage("--at-least is %v, want 0s or more", j.atLeast)
	case j.once == "" && j.config.from["once"] > fromDefault:
		return usage("--once is empty")
	case j.once == "" && j.config.from["keep"] > fromDefault:
		return usage("--keep needs --once")
	case j.maxRun < 0 || j.maxRun == 0 && j.config.from["max-run"] > fromDefault:
		return usage("--max-run is %v, want more than 0s", j.maxRun)
	case j.grace < 0:
		return usage("--grace is %v, want 0s or more", j.grace)
	case j.passHandle && j.atLeast > 0:
		return usage("--pass-handle and --at-least exclude each other")
	case j.grace > j.ttl/3 && j.config.from["grace"] > fromDefault:
		return usage("--grace is %v, want at most a third of the TTL, %v", j.grace, j.ttl/3)
	}
	j.grace = min(j.grace, j.ttl/3)
	return nil
}

// find makes the command, or says why it cannot run.
func (j *job) find(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		code := exitNotFound
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
			code = exitNotRunnable
		}
		var e *exec.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return &exitError{code, errors.New(argv[0] + ": " + err.Error())}
	}
	j.child = &exec.Cmd{Path: path, Args: argv, Stdin: j.in, Stdout: j.out, Stderr: j.err, WaitDelay: time.Second}
	return nil
}

// observer tells what happens with -v.
func (j *job) observer() distlock.Observer {
	if !j.verbose {
		return nil
	}
	return distlock.Log(j.logger())
}

// nameStore logs with -v where the file of a store is. Two environments, such as a login and cron,
// may name two files by "sqlite:".
func (j *job) nameStore() {
	if file, ok := j.source.Store.(interface{ Path() string }); ok && j.verbose {
		j.logger().Debug("store", "file", file.Path())
	}
}

// logger writes the lines of -v.
func (j *job) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		switch v := at.Value.Any().(type) {
		case error:
			at.Value = slog.StringValue(j.redact(v.Error()))
		case string:
			at.Value = slog.StringValue(j.redact(v))
		}
		return at
	}}
	var h slog.Handler = slog.NewTextHandler(j.app.err, o)
	if j.logFormat == "json" {
		h = slog.NewJSONHandler(j.app.err, o)
	}
	return slog.New(h)
}

// hold takes the lock, runs the command and gives the lock back.
func (j *job) hold(ctx context.Context, locker *distlock.Locker, opts []distlock.Option) error {
	// From here on signals are ours until the process ends: none must fall between the wait and the child, and
	// a second one must not end us while the lock is given back.
	j.sigs = make(chan os.Signal, 16)
	notify(j.sigs, forwarded()...)
	// A reader of our messages that has gone must not end us either, and the command with us.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	j.nameStore()

	began := time.Now()
	lease, err := j.await(ctx, locker, opts)
	j.report.begin(j.name, time.Since(began), lease)
	if err != nil {
		return err
	}
	granted := time.Now()
	// A lease may begin with a part of its TTL, and Ensure has it renewed then. Without that the
	// command would have to be stopped as soon as it is started.
	if lease.Ensure(ctx, j.grace+j.ttl/10) != nil {
		j.discard(context.WithoutCancel(ctx), locker, lease)
		return &exitError{exitUnavailable, errors.New(j.name + ": the lock could not be renewed in time, the command was not started")}
	}
	j.child.Env = environment(lease, j.holder)
	if j.passHandle {
		if lease, err = j.giveHandle(ctx, locker, lease); err != nil {
			return err
		}
	}
	err = j.supervise(lease)                         //nolint:contextcheck // the child ends by its own rules, and is waited for
	lost := errors.Is(lease.Err(), distlock.ErrLost) //nolint:contextcheck // Err waits for nothing
	told := ""
	switch unlock := lease.Unlock(context.WithoutCancel(ctx)); {
	case errors.Is(unlock, distlock.ErrLost):
		lost, told = true, j.whyLost(context.WithoutCancel(ctx), unlock)
	case unlock != nil && !j.quiet:
		j.say("%s was not given back, and stays taken for up to %v: %v", j.name, j.ttl, unlock)
	}
	var verdict *exitError
	stopped := errors.As(err, &verdict) && verdict.code == exitLost && verdict.err != nil // a child may exit with 79 by itself
	j.report.Held = time.Since(granted).Seconds()
	j.report.Lost = lost || stopped
	if lost && !stopped {
		return &exitError{exitLost, errors.New(j.name + ": the lock was lost while the command ran" + told)}
	}
	return err
}

// whyLost tells for which reason a lock was broken, if it was: with a colon before it, for the end of a message. If the command ended before the next
// renewal nobody has been told the reason yet.
func (j *job) whyLost(ctx context.Context, unlock error) string {
	var broken *driver.BrokenError
	reason := ""
	if errors.As(unlock, &broken) {
		reason = broken.Reason
	} else if j.asked != nil {
		reason = j.asked.whyBroken(ctx)
	}
	if reason == "" {
		return ""
	}
	return ": broken: " + strconv.Quote(reason)
}

// await takes the lock, while a terminal shows for whom we wait.
func (j *job) await(parent context.Context, locker *distlock.Locker, opts []distlock.Option) (*distlock.Lease, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	done := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case s := <-j.sigs:
				if sig := s.(syscall.Signal); ends(sig) {
					cancel(signalError{sig})
				}
			case <-done:
				return
			}
		}
	}()
	stop := j.showWaiting(ctx, locker)
	lease, err := j.take(ctx, locker, j.name, opts)
	stop()
	close(done)
	<-over
	var sig signalError
	if err == nil && errors.As(context.Cause(ctx), &sig) { // it came together with the grant
		j.discard(context.WithoutCancel(parent), locker, lease)
		return nil, &exitError{exitSignal + int(sig.sig), nil}
	}
	return lease, err
}

// discard gives back a lock under which the command was not started. --at-least does not count
// then: a lease that is attached has no shortest hold.
func (j *job) discard(ctx context.Context, locker *distlock.Locker, lease *distlock.Lease) {
	if j.atLeast > 0 {
		if h, err := lease.Handle(ctx); err == nil {
			if again, err := locker.Attach(ctx, h); err == nil {
				lease = again
			}
		}
	}
	_ = lease.Unlock(ctx)
}

// giveHandle puts the handle into the child's environment. A lease ends when its handle is made, so we go on with
// the handle ourselves.
func (j *job) giveHandle(ctx context.Context, locker *distlock.Locker, lease *distlock.Lease) (*distlock.Lease, error) {
	h, err := lease.Handle(ctx)
	if err != nil {
		_ = lease.Unlock(ctx)
		return nil, err
	}
	j.child.Env = append(j.child.Env, handleVariable+"="+h.Text())
	return locker.Attach(ctx, h, distlock.Observe(j.observer()))
}
