// Command bench measures distlock beside what it could at best be, in one run: rounds are
// interleaved, repeated, and told as medians and ratios, since machines are noisy.
//
//	cd bench && go run . core
//
// core measures what needs no server: one key that many goroutines contend for, a free key, and
// 10,000 leases that are held at the same time.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(exec(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// exec runs one suite and returns the exit code.
func exec(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 7, "how often each scenario is run")
	each := flags.Duration("each", 500*time.Millisecond, "how long one run of a scenario takes")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench [flags] core")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 64
	}
	if flags.NArg() != 1 || flags.Arg(0) != "core" || *rounds < 1 || *each <= 0 {
		flags.Usage()
		return 64
	}
	b := &bench{ctx: ctx, rounds: *rounds, each: *each, out: stdout, progress: io.Discard}
	if f, ok := stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.progress = stderr // a line that is written over and over is for terminals
		}
	}
	if err := b.core(); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}
