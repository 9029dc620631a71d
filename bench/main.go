// Command bench compares distlock with other libraries and with bare commands, in one run: rounds
// are interleaved and repeated, and the tables show medians and ratios, since machines are noisy.
//
//	cd bench && go run . redis
//	cd bench && go run . -quick all
//	cd bench && go run . all
//
// Without a name it lists the benchmarks. The command starts the servers that it needs on free
// loopback ports, and stops them at the end. Redis has no persistence; PostgreSQL, MariaDB and etcd
// wait for their disk.
//
// The benchmark all also writes its results to results.json, and makes docs/benchmarks.md and the
// plots in docs/img of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/internal/typo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(exec(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A suite is a benchmark with several tables.
type suite struct {
	name, about string
	run         func(*bench) error
}

// suites returns all suites, in the order of the page.
func suites() []suite {
	return []suite{
		{"core", "the library alone, without a server", (*bench).core},
		{"redis", "one Redis server; with redislock, redsync and rueidislock", (*bench).redis},
		{"redlock", "three and five Redis servers; with redsync", (*bench).redlock},
		{"postgres", "one PostgreSQL server; with pglock", (*bench).postgres},
		{"etcd", "one etcd server; with concurrency.Mutex", (*bench).etcd},
		{"mysql", "one MariaDB server", (*bench).mysql},
		{"sqlite", "a file", (*bench).sqlite},
		{"locks", "the service Locks of a lock server on a file", (*bench).locks},
		{"cli", "the time that distlock run adds to a command", (*bench).cli},
		{"server", "the lock server; with bare calls and with the lock service of etcd", (*bench).server},
		{"growth", "costs by waiters, leases, names, permits and shared holders, on every store", (*bench).growth},
	}
}

// The words that stand for something other than one suite.
const (
	wordAll  = "all"
	wordPage = "page"
)

// A config has the arguments of the command.
type config struct {
	names                     []string
	rounds                    int
	each, limit               time.Duration
	only, redis, profile      string
	quick, page               bool
	pattern                   *regexp.Regexp
	results, document, images string // the files of the page
	load                      string // of the machine before the first suite
}

// exec runs the suites and returns the exit code.
func exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == childWord {
		return child(ctx, args[1:], stdin, stdout, stderr)
	}
	if len(args) > 0 && args[0] == serverWord {
		return serveChild(ctx, stdin, stdout, stderr)
	}
	c, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 64
	}
	var errs []error
	err = profiled(c.profile, func() error {
		errs = c.run(ctx, stdout, stderr)
		return errors.Join(errs...)
	})
	switch {
	case err == nil:
		return 0
	case len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, errMissing) }):
		fmt.Fprintln(stderr, "bench:", err)
		return 69
	}
	fmt.Fprintln(stderr, "bench:", err)
	return 1
}

// parse reads the arguments. Its error says what can be given instead.
func parse(args []string, stderr io.Writer) (c config, err error) {
	c = config{results: "results.json", document: "../docs/benchmarks.md", images: "../docs/img"}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&c.rounds, "rounds", 7, "how often each scenario is run; 3 at most for growth")
	flags.DurationVar(&c.each, "each", 500*time.Millisecond, "how long one run of a scenario takes; four times as long for one key")
	flags.DurationVar(&c.limit, "limit", 20*time.Second, "the longest time for one point of growth")
	flags.StringVar(&c.only, "only", "", "run the tables whose title matches this regular expression")
	flags.StringVar(&c.redis, "redis", "", "host:port of a Redis server to use and to write to, or several with commas for redlock; empty: start servers")
	flags.BoolVar(&c.quick, "quick", false, "run everything once and short, to see that it works: the figures mean nothing")
	flags.BoolVar(&c.page, "page", false, "write the results to results.json and docs/benchmarks.md, as all does")
	flags.StringVar(&c.profile, "cpuprofile", "", "write a CPU profile of this process to this file")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			usage(flags, stderr)
		}
		return c, err
	}
	if c.names, err = chosen(flags.Args()); err != nil {
		return c, err
	}
	if c.pattern, err = regexp.Compile(c.only); err != nil {
		return c, fmt.Errorf("-only: %w", err)
	}
	c.page = c.page || slices.Contains(flags.Args(), wordAll) && !c.quick && c.only == ""
	switch {
	case c.rounds < 1:
		return c, fmt.Errorf("-rounds is %d, want at least 1", c.rounds)
	case c.each <= 0 || c.limit <= 0:
		return c, fmt.Errorf("-each is %v and -limit is %v, want more than 0", c.each, c.limit)
	case c.page && (c.quick || c.only != ""):
		return c, errors.New("the page needs whole measurements: -page cannot be combined with -quick or -only")
	case c.quick:
		c.rounds, c.each = 1, 20*time.Millisecond
	}
	return c, nil
}

func usage(flags *flag.FlagSet, w io.Writer) {
	fmt.Fprintln(w, "usage: bench [flags] NAME...; the names are:")
	fmt.Fprint(w, listing())
	flags.SetOutput(w)
	flags.PrintDefaults()
}

// listing returns the names that can be given, with a line for each.
func listing() string {
	var s strings.Builder
	for _, one := range suites() {
		fmt.Fprintf(&s, "  %-9s %s\n", one.name, one.about)
	}
	fmt.Fprintf(&s, "  %-9s %s\n", wordAll, "all of them; writes results.json, docs/benchmarks.md and its plots")
	fmt.Fprintf(&s, "  %-9s %s\n", wordPage, "measures nothing; writes the page and its plots from results.json")
	return s.String()
}

// chosen returns the suites that the arguments name.
func chosen(args []string) ([]string, error) {
	var known, names []string
	for _, s := range suites() {
		known = append(known, s.name)
	}
	if len(args) == 0 {
		return nil, errors.New("name a benchmark:\n" + listing())
	}
	for _, name := range args {
		switch {
		case name == wordAll:
			names = append(names, known...)
		case name == wordPage || slices.Contains(known, name):
			names = append(names, name)
		default:
			hint := ""
			if near, ok := typo.Of(name, append(known, wordAll, wordPage), 2); ok {
				hint = fmt.Sprintf(" Did you mean %s?", near)
			}
			return nil, fmt.Errorf("no benchmark is called %q.%s The names are:\n%s", name, hint, listing())
		}
	}
	return names, nil
}

// run runs the suites. The results of those that succeeded are written even if a later one fails.
func (c config) run(ctx context.Context, stdout, stderr io.Writer) (errs []error) {
	c.load = loadAverage() // the later suites would measure the load of the first
	p := newProgress(stderr)
	var titles []string
	tables := 0
	for i, name := range c.names {
		if name == wordPage {
			if err := c.writePage(); err != nil {
				errs = append(errs, err)
			}
			continue
		}
		at := slices.IndexFunc(suites(), func(s suite) bool { return s.name == name })
		fmt.Fprintf(stdout, "== %s (%d of %d)\n", name, i+1, len(c.names))
		b, err := c.suite(ctx, suites()[at], stdout, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		titles, tables = append(titles, b.titles...), tables+len(b.tables)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 && len(titles) > 0 && tables == 0 {
		errs = append(errs, fmt.Errorf("-only %s matches no table. The titles are:\n  %s", c.only, strings.Join(titles, "\n  ")))
	}
	return errs
}

// suite runs one suite, and adds its results to those of the page.
func (c config) suite(ctx context.Context, s suite, stdout io.Writer, p *progress) (*bench, error) {
	b := &bench{
		ctx: ctx, rounds: c.rounds, each: c.each, limit: c.limit, quick: c.quick, only: c.pattern, out: stdout, progress: p,
		versions: map[string]string{},
	}
	if c.redis != "" {
		b.addrs = strings.Split(c.redis, ",")
	}
	began := time.Now()
	err := s.run(b)
	p.clear()
	if err != nil {
		return b, err
	}
	fmt.Fprintf(stdout, "%s: %v\n", s.name, time.Since(began).Round(time.Second))
	if !c.quick {
		b.summary()
	}
	if !c.page {
		return b, nil
	}
	if err := c.keep(s.name, b.record(c.load)); err != nil {
		return b, err
	}
	return b, c.writePage()
}

// profiled runs f, and writes a CPU profile if a file is named.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}
