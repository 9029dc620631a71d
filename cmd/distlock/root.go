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

// The exit codes that are ours. Those of docs/cli.md are a promise.
const (
	exitFound       = 1 // torture and doctor: something is wrong
	exitUsage       = 64
	exitUnavailable = 69
	exitBusy        = 75
	exitLost        = 79
	exitMaxRun      = 124
	exitFailed      = 125
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
)

// An exitError ends the program with a code, and with a line on standard error if it has an err.
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
	redact func(string) string // takes secrets out of what is printed
	open   func(ctx context.Context, url string) (*open.Source, error)
	source *open.Source
	asked  *asked // if not nil, what stands before the store
	config config
	brief  bool // the process ends with this call
}

// execute runs one command and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr, redact: open.Redact, open: open.Open}
	return a.execute(ctx, args)
}

func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root() //nolint:contextcheck // commands get theirs from cobra
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		refuseTwice(root) // what a shell has completed cobra reads twice
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

// finish says what went wrong in one line, and returns the code for it.
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

// oneLine makes a line of a text. Lines that begin with a tab are tries of what the line before says, as those of a client of PostgreSQL are that
// tries with TLS and without, and every address: the last is the one that counts.
func oneLine(text string) string {
	var out []string
	try := ""
	flush := func() {
		if try != "" {
			out[len(out)-1] += " " + try
		}
		try = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\t' || r == '\r' }), " ")
		switch {
		case strings.TrimSpace(words) == "":
		case strings.HasPrefix(line, "\t") && len(out) > 0:
			try = words
		default:
			flush()
			out = append(out, words)
		}
	}
	flush()
	return strings.Join(out, "; ")
}

// exitCode is the code for an error of a command.
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
	case errors.Is(err, distlock.ErrUnavailable), errors.Is(err, distlock.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "distlock", Short: "Make one thing happen at a time, across processes and machines",
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
	root.AddCommand(a.run(), a.acquire(), a.renew(), a.release(), a.ls(), a.show(), a.wait(), a.breaks(), a.version(), a.completion())
	root.AddCommand(a.bench(), a.torture(), a.tortureProcess())
	root.AddCommand(a.doctor(), a.watch())
	root.AddCommand(a.migrate(), a.limit(), a.elect())
	return root
}

// refuseTwice makes every flag one that may be given once.
func refuseTwice(root *cobra.Command) {
	for _, c := range root.Commands() {
		onceEach(c.Flags())
	}
	onceEach(root.PersistentFlags())
}

// unmark takes the marks around the words for values out of what is said of flags: help and man pages read them, shells show them as they are.
func unmark(root *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	for _, c := range root.Commands() {
		c.Flags().VisitAll(plain)
	}
	root.PersistentFlags().VisitAll(plain)
}

// help is what people type who do not know of --help.
func help(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	c, _, err := root.Find(args[:1])
	if err != nil || c == root {
		return unknownCommand(root, args[0])
	}
	c.InitDefaultHelpFlag() // else it is missing in the list
	return c.Help()
}

// exact refuses any other number of arguments than those named.
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
	// A server that refuses connections is told at once; one that is silent must not keep a script for longer.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a.source, err = a.open(ctx, url)
	switch {
	case errors.Is(err, open.ErrURL):
		return nil, err
	case err != nil:
		return nil, &exitError{exitUnavailable, err}
	}
	if s, ok := a.source.Store.(interface{ Brief() }); ok && a.brief {
		s.Brief()
	}
	var opts []distlock.Option
	if a.source.TTL > 0 {
		opts = append(opts, distlock.TTL(a.source.TTL))
	}
	if p := a.source.Poll; p > 0 {
		opts = append(opts, distlock.Backoff(min(p, 20*time.Millisecond), p))
	}
	if a.asked != nil {
		a.asked.Store = a.source.Store
		return distlock.New(a.asked, opts...)
	}
	return distlock.New(a.source.Store, opts...)
}

// interruptible returns a context that ends with the signals that end a program.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	sigs := make(chan os.Signal, 4)
	notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
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

// notify asks for signals, but for those that whoever started us wants ignored, as nohup and the
// shell's & do. A child inherits that.
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
