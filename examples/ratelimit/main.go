// Command ratelimit shares one rate limit among four processes: twenty calls in any minute, over
// all processes together.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/store/sqlite"
)

const (
	processes = 4
	calls     = 20 // attempts of each process
	limit     = 20
	window    = time.Minute
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 1 {
		run = func(ctx context.Context) error { return call(ctx, os.Args[1]) }
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// start runs the processes and adds up the numbers that they print.
func start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	callers := make([]*process.Process, processes)
	for i := range callers {
		if callers[i], err = process.Start(ctx, filepath.Join(dir, "locks.db")); err != nil {
			return err
		}
	}
	passed := 0
	for _, c := range callers {
		line, _ := c.Line() // empty if the process failed, which Wait reports
		if err := c.Wait(); err != nil {
			return err
		}
		n, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		passed += n
	}
	fmt.Printf("%d processes made %d calls: %d passed, %d were refused with the time to retry\n",
		processes, processes*calls, passed, processes*calls-passed)
	return nil
}

// call makes its calls, and prints how many passed the limit.
func call(ctx context.Context, file string) error {
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		return err
	}
	limiter, err := locker.Limiter(limit, window)
	if err != nil {
		return err
	}
	passed := 0
	for range calls {
		err := limiter.Allow(ctx, "partner-api")
		var limited *distlock.LimitError
		switch {
		case err == nil:
			passed++ // a real program calls the partner here
		case errors.As(err, &limited) && limited.Retry > 0 && limited.Retry <= window:
			// A program that can wait sleeps for limited.Retry, or uses limiter.Wait.
		default:
			return fmt.Errorf("neither passed nor limited: %w", err)
		}
	}
	fmt.Println(passed)
	return nil
}
