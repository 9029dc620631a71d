package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/open"
)

// The exit codes of distlock itself. docs/cli.md promises them.
const (
	exitFound       = 1 // torture and doctor found a problem
	exitUsage       = 64
	exitUnavailable = 69
	exitBusy        = 75
	exitLost        = 79
	exitMaxRun      = 124
	exitFailed      = 125
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal
)

// An exitError ends the program with a code. If err is not nil, it is printed to standard error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// A signalError is the cause of a context that a signal ended.
type signalError struct{ sig syscall.Signal }

func (e signalError) Error() string { return "interrupted: " + e.sig.String() }

// An app is one call of the program.
type app struct {
	in     io.Reader
	out    io.Writer
	err    io.Writer
	redact func(string) string // removes secrets from output
	open   func(ctx context.Context, url string) (*open.Source, error)
	source *open.Source
	config config
	exits  bool // the process ends with this call

	recorder *recorder // if not nil, it wraps the store
}

// execute runs one command and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr, redact: open.Redact, open: open.Open}
	return a.execute(ctx, args)
}

func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root() //nolint:contextcheck // commands get theirs from cobra
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		refuseTwice(root) // not for completion, because cobra parses a completed line twice
	} else {
		unmark(root)
	}
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if a.source != nil {
		a.close()
	}
	return a.finish(err)
}

// finish prints the error in one line and returns its exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return 0
	}
	code := exitCode(err)
	var e *exitError
	if !errors.As(err, &e) || e.err != nil {
		a.say("%s", strings.TrimPrefix(err.Error(), "distlock: "))
	}
	return code
}

// say writes a line to standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.err, "distlock: "+oneLine(a.redact(fmt.Sprintf(format, args...))))
}

// oneLine joins the lines of a text. A line that begins with a tab is one attempt of the operation
// in the line before. The client of PostgreSQL, for example, tries every address with and without
// TLS. oneLine keeps only the last attempt.
func oneLine(text string) string {
	var out []string
	attempt := ""
	flush := func() {
		if attempt != "" {
			out[len(out)-1] += " " + attempt
		}
		attempt = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		joined := strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\t' || r == '\r' }), " ")
		switch {
		case strings.TrimSpace(joined) == "":
		case strings.HasPrefix(line, "\t") && len(out) > 0:
			attempt = joined
		default:
			flush()
			out = append(out, joined)
		}
	}
	flush()
	return strings.Join(out, "; ")
}

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	var e *exitError
	var sig signalError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &sig):
		return exitSignal + int(sig.sig)
	case errors.Is(err, distlock.ErrHeld):
		return exitBusy
	case errors.Is(err, distlock.ErrLost):
		return exitLost
	case errors.Is(err, distlock.ErrInvalid), errors.Is(err, errors.ErrUnsupported), errors.Is(err, open.ErrURL):
		return exitUsage
	case errors.Is(err, distlock.ErrUnavailable), errors.Is(err, distlock.ErrUnknown),
		errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "distlock", Short: "Distributed locks for the shell, across processes and machines",
		Example:       "  distlock run demo -- echo hello\n  distlock run --help",
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("no command given: see distlock --help")
			}
			if args[0] == "help" {
				return help(c, args[1:])
			}
			return unknownCommand(c, args[0])
		},
	}
	root.PersistentFlags().String("store", "", "the `URL` of the store")
	root.PersistentFlags().String("config", "", "the configuration `FILE`")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	root.AddCommand(a.run(), a.acquire(), a.renew(), a.release(), a.ls(), a.show(), a.wait(), a.breaks())
	root.AddCommand(a.version(), a.completion())
	root.AddCommand(a.bench(), a.torture(), a.tortureProcess())
	root.AddCommand(a.doctor(), a.watch())
	root.AddCommand(a.migrate(), a.limit(), a.elect(), a.serve(), a.token())
	return root
}

// commands returns all commands below one.
func commands(c *cobra.Command) (out []*cobra.Command) {
	for _, sub := range c.Commands() {
		out = append(append(out, sub), commands(sub)...)
	}
	return out
}

// refuseTwice makes every flag an error if it is given twice.
func refuseTwice(root *cobra.Command) {
	for _, c := range commands(root) {
		onceEach(c.Flags())
	}
	onceEach(root.PersistentFlags())
}

// unmark removes the backquotes around the names of values from the usage of flags. Help and man
// pages use the backquotes, but shells would show them.
func unmark(root *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	for _, c := range commands(root) {
		c.Flags().VisitAll(plain)
	}
	root.PersistentFlags().VisitAll(plain)
}

// help prints the help of a command, for users who type "help" instead of "--help".
func help(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	c, _, err := root.Find(args)
	if err != nil || c == root {
		return unknownCommand(root, args[0])
	}
	c.InitDefaultHelpFlag() // otherwise --help is missing in the list of flags
	return c.Help()
}

// exact returns an error unless there is one argument for each of the names.
func exact(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usage("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return usage("too many arguments: %.64q", args[len(names)])
		}
		return nil
	}
}

// atMost allows one argument, or none.
func atMost(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exact(name)(c, args)
	}
}

// locker configures the command and opens its store.
func (a *app) locker(c *cobra.Command) (*distlock.Locker, error) {
	url, err := a.address(c)
	if err != nil {
		return nil, err
	}
	return a.connect(c.Context(), url)
}

// address configures the command and returns the URL of its store.
func (a *app) address(c *cobra.Command) (string, error) {
	if err := a.configure(c); err != nil {
		return "", err
	}
	url, err := a.storeURL(c)
	if err == nil {
		a.redact = open.Redactor(url)
	}
	return url, err
}

// connect opens a store.
func (a *app) connect(ctx context.Context, url string) (_ *distlock.Locker, err error) {
	// If the server refuses the connection, the error is returned at once. The limit is for a
	// server that does not answer, so that a script does not hang.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a.source, err = a.open(ctx, url)
	switch {
	case errors.Is(err, open.ErrURL):
		return nil, err
	case err != nil:
		return nil, &exitError{exitUnavailable, err}
	}
	if s, ok := a.source.Store.(interface{ Brief() }); ok && a.exits {
		s.Brief()
	}
	opts := a.source.Options()
	if a.recorder != nil {
		a.recorder.Store = a.source.Store
		return distlock.New(a.recorder, opts...)
	}
	return distlock.New(a.source.Store, opts...)
}

// interruptible returns a context that is cancelled by the signals that end a program.
func interruptible(parent context.Context) (context.Context, func()) {
	return endedBy(parent, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
}

// endedBy returns a context that is cancelled by signals.
func endedBy(parent context.Context, by ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	sigs := make(chan os.Signal, 4)
	notify(sigs, by...)
	stop := make(chan struct{})
	go func() {
		select {
		case s := <-sigs:
			cancel(signalError{s.(syscall.Signal)})
		case <-stop:
		}
	}()
	return ctx, func() { signal.Stop(sigs); close(stop); cancel(nil) }
}

// notify subscribes to signals, except those that this process inherited as ignored, for example
// from nohup or from the shell's &. The child inherits them as ignored too.
func notify(c chan<- os.Signal, sigs ...os.Signal) {
	for _, s := range sigs {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
