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
	lockFlags
	name                   string
	command                string // -c
	minHold, maxRun, grace time.Duration
	onLost, logFormat      string
	reportFile             string
	once                   string // run the command once for this key
	keep                   time.Duration
	verbose, passHandle    bool

	sigs   chan os.Signal
	ending bool            // a signal that ends this process was forwarded
	resign <-chan struct{} // closed when the child must end
	child  *exec.Cmd
	group  bool        // the child has a process group of its own
	tree   processTree // the processes to signal if the child has no process group of its own
	report
}

func (a *app) run() *cobra.Command {
	j := &job{app: a}
	c := &cobra.Command{
		Use:   "run [flags] NAME [--] COMMAND [ARG...]",
		Short: "Hold a lock while a command runs",
		Example: "  distlock run deploy -- ./deploy.sh\n" +
			"  distlock run -n -E 0 nightly -c 'make report | mail -s report ops'",
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
	f.SetInterspersed(false) // flags after COMMAND belong to the command
	f.Int64Var(&j.slots, "slots", 0, "acquire one of `N` slots of the name, instead of its lock")
	f.StringVarP(&j.command, "command", "c", "", "run a `LINE` of shell")
	f.DurationVar(&j.minHold, "min-hold", 0, "hold the lock for at least `D`, even if the command ends sooner")
	f.StringVar(&j.once, "once", "", "run once for `KEY`, such as the time of a cron job: a command that succeeded is not run again")
	f.DurationVar(&j.keep, "keep", 24*time.Hour, "how long --once remembers that the command succeeded")
	f.DurationVar(&j.maxRun, "max-run", 0, "stop the command after `D`, and exit with 124")
	f.DurationVar(&j.grace, "grace", 5*time.Second, "the time between TERM and KILL; at most TTL/3")
	f.StringVar(&j.onLost, "on-lost", "stop", "the action when the lock is lost: `stop|warn`")
	f.BoolVarP(&j.verbose, "verbose", "v", false, "log events to standard error")
	f.StringVar(&j.logFormat, "log-format", "text", "the format of the log of -v: `text|json`")
	f.StringVar(&j.reportFile, "report", "", "write one JSON object about the run to `FILE`")
	f.BoolVar(&j.passHandle, "pass-handle", false, "pass the handle to the command in DISTLOCK_LOCK_HANDLE: it is a secret")
	return c
}

func (j *job) main(c *cobra.Command, args []string) error {
	// Flags may also follow NAME.
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
	j.recorder = new(recorder) // for the line about the wait and the reason of a loss
	locker, err := j.locker(c)
	if err != nil {
		return err
	}
	if err := errors.Join(j.lockFlags.check(j.app), j.check()); err != nil {
		return err
	}
	opts, err := j.options(j.app)
	if err != nil {
		return err
	}
	if err := j.find(argv); err != nil { // before the wait, so that a typo fails at once
		return err
	}
	if err := j.nested(c.Context(), locker); err != nil {
		return err
	}
	opts = append(opts, distlock.Observe(j.observer()))
	if j.minHold > 0 {
		opts = append(opts, distlock.MinHold(j.minHold))
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
	case j.slots > 0 && j.lockFlags.shared:
		return usage("--slots and --shared exclude each other")
	case j.minHold < 0:
		return usage("--min-hold is %v, want 0s or more", j.minHold)
	case j.once == "" && j.config.from["once"] > fromDefault:
		return usage("--once is empty")
	case j.once == "" && j.config.from["keep"] > fromDefault:
		return usage("--keep needs --once")
	case j.maxRun < 0 || j.maxRun == 0 && j.config.from["max-run"] > fromDefault:
		return usage("--max-run is %v, want more than 0s", j.maxRun)
	case j.grace < 0:
		return usage("--grace is %v, want 0s or more", j.grace)
	case j.passHandle && j.minHold > 0:
		return usage("--pass-handle and --min-hold exclude each other")
	case j.grace > j.ttl/3 && j.config.from["grace"] > fromDefault:
		return usage("--grace is %v, want at most a third of the TTL, %v", j.grace, j.ttl/3)
	}
	j.grace = min(j.grace, j.ttl/3)
	return nil
}

// find creates the command. It returns an error if the command cannot run.
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

// observer returns the observer that logs events with -v.
func (j *job) observer() distlock.Observer {
	if !j.verbose {
		return nil
	}
	return distlock.Log(j.logger())
}

// logPath logs the path of the store's file with -v. In two environments, such as a login and cron,
// "sqlite:" may name two different files.
func (j *job) logPath() {
	if file, ok := j.source.Store.(interface{ Path() string }); ok && j.verbose {
		j.logger().Debug("store", "file", file.Path())
	}
}

// logger returns the logger of -v.
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

// hold acquires the lock, runs the command and releases the lock.
func (j *job) hold(ctx context.Context, locker *distlock.Locker, opts []distlock.Option) error {
	// From here on this process handles signals until it ends. No signal may get lost between the
	// wait and the start of the child, and a second signal must not end this process during the
	// release.
	j.sigs = make(chan os.Signal, 16)
	notify(j.sigs, forwarded()...)
	// If the reader of the messages has gone, SIGPIPE must not end this process, and with it the
	// command.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	j.logPath()

	began := time.Now()
	lease, err := j.await(ctx, locker, opts)
	j.report.begin(j.name, time.Since(began), lease)
	if err != nil {
		return err
	}
	granted := time.Now()
	// A lease may begin with a part of its TTL only. Ensure renews it in that case: otherwise
	// supervise would stop the command right after its start.
	if lease.Ensure(ctx, j.grace+j.ttl/10) != nil {
		j.discard(context.WithoutCancel(ctx), locker, lease)
		return &exitError{
			exitUnavailable, errors.New(j.name + ": the lock could not be renewed in time, the command was not started"),
		}
	}
	j.child.Env = environment(lease, j.holder)
	if j.passHandle {
		if lease, err = j.giveHandle(ctx, locker, lease); err != nil {
			return err
		}
	}
	err = j.supervise(lease)
	lost := errors.Is(lease.Err(), distlock.ErrLost)
	reason := ""
	switch unlock := lease.Unlock(context.WithoutCancel(ctx)); {
	case errors.Is(unlock, distlock.ErrLost):
		lost, reason = true, j.lossReason(context.WithoutCancel(ctx), unlock)
	case unlock != nil && !j.quiet:
		j.say("%s could not be released, and stays held for up to %v: %v", j.name, j.ttl, unlock)
	}
	var verdict *exitError
	// A child may exit with 79 by itself. Then the error has no message.
	stopped := errors.As(err, &verdict) && verdict.code == exitLost && verdict.err != nil
	j.report.Held = time.Since(granted).Seconds()
	j.report.Lost = lost || stopped
	if lost && !stopped {
		return &exitError{exitLost, errors.New(j.name + ": the lock was lost while the command ran" + reason)}
	}
	return err
}

// lossReason returns the reason for which the lock was broken, as the end of a message, with a
// colon before it. It is empty if the lock was not broken. If the command ended before the next
// renewal, the lease does not know the reason yet, and lossReason requests it from the store.
func (j *job) lossReason(ctx context.Context, unlock error) string {
	var broken *driver.BrokenError
	reason := ""
	if errors.As(unlock, &broken) {
		reason = broken.Reason
	} else if j.recorder != nil {
		reason = j.recorder.breakReason(ctx)
	}
	if reason == "" {
		return ""
	}
	return ": broken: " + strconv.Quote(reason)
}

// await acquires the lock. On a terminal it shows the current holder meanwhile.
func (j *job) await(parent context.Context, locker *distlock.Locker, opts []distlock.Option) (*distlock.Lease, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
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
	lease, err := j.lockFlags.acquire(ctx, locker, j.name, opts)
	stop()
	close(done)
	<-ended
	var sig signalError
	// A signal may arrive together with the grant.
	if err == nil && errors.As(context.Cause(ctx), &sig) {
		j.discard(context.WithoutCancel(parent), locker, lease)
		return nil, &exitError{exitSignal + int(sig.sig), nil}
	}
	return lease, err
}

// discard releases a lock if the command was not started. --min-hold does not apply then, so
// discard attaches to the lock first: an attached lease has no shortest hold.
func (j *job) discard(ctx context.Context, locker *distlock.Locker, lease *distlock.Lease) {
	if j.minHold > 0 {
		if h, err := lease.Detach(ctx); err == nil {
			if again, err := locker.Attach(ctx, h); err == nil {
				lease = again
			}
		}
	}
	_ = lease.Unlock(ctx)
}

// giveHandle puts the handle into the child's environment. A lease ends when its handle is created,
// so giveHandle attaches to the handle and returns the new lease.
func (j *job) giveHandle(ctx context.Context, locker *distlock.Locker, lease *distlock.Lease) (*distlock.Lease, error) {
	h, err := lease.Detach(ctx)
	if err != nil {
		_ = lease.Unlock(ctx)
		return nil, err
	}
	j.child.Env = append(j.child.Env, handleVariable+"="+h.Secret())
	return locker.Attach(ctx, h, distlock.Observe(j.observer()))
}
