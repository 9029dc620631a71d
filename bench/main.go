// Command bench compares distlock with other libraries and with bare commands, in one run: rounds
// are interleaved and repeated, and the tables show medians and ratios, since machines are noisy.
//
//	cd bench && go run . core
//	cd bench && go run . redis
//	cd bench && go run . redlock
//	cd bench && go run . sqlite
//	cd bench && go run . cli
//	cd bench && go run . postgres
//
// core needs no server: one key that many goroutines contend for, a free key, and 10,000 leases
// that are held at the same time.
//
// sqlite measures a file, and cli the time that distlock run adds to a command. cli builds the
// program first.
//
// redis and redlock start Redis servers on free loopback ports, without persistence, and stop them
// at the end; -redis names servers to use instead. postgres starts a PostgreSQL server that waits
// for its disk. docs/benchmarks.md explains each table.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(exec(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// suites has all suites by name.
var suites = map[string]func(*bench) error{
	"core": (*bench).core, "redis": (*bench).redis, "redlock": (*bench).redlock,
	"sqlite": (*bench).sqlite, "cli": (*bench).cli,
	"postgres": (*bench).postgres,
}

// exec runs one suite and returns the exit code.
func exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == childWord {
		return child(ctx, args[1:], stdin, stdout, stderr)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 7, "how often each scenario is run")
	each := flags.Duration("each", 500*time.Millisecond, "how long one run of a scenario takes; four times as long for one key")
	only := flags.String("only", "", "run the tables whose title matches this regular expression")
	addrs := flags.String("redis", "", "host:port of a Redis server to use and to write to, or several with commas for redlock; empty: start servers")
	file := flags.String("json", "", "also write the tables to this file, as JSON")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to this file")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench [flags] core | redis | redlock | sqlite | cli | postgres")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 64
	}
	pattern, err := regexp.Compile(*only)
	suite, known := suites[flags.Arg(0)]
	if flags.NArg() != 1 || !known || *rounds < 1 || *each <= 0 || err != nil {
		flags.Usage()
		return 64
	}
	b := &bench{ctx: ctx, rounds: *rounds, each: *each, pick: pattern.MatchString, out: stdout, progress: io.Discard}
	if *addrs != "" {
		b.addrs = strings.Split(*addrs, ",")
	}
	if f, ok := stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.progress = stderr // a line that is overwritten again and again is for terminals
		}
	}
	err = profiled(*profile, func() error { return suite(b) })
	b.summary()
	if err == nil && *file != "" {
		err = b.write(*file, flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
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
