// Command ratelimit lets four processes share one rate limit: twenty calls in any minute, whoever makes them.
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
	calls     = 20 // that each of them would like to make
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

// start runs the processes and adds up what they print.
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
		line, _ := c.Line() // none if it failed, which Wait tells
		if err := c.Wait(); err != nil {
			return err
		}
		n, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		passed += n
	}
	fmt.Printf("%d processes asked %d times: %d passed, %d were told to come back later\n",
		processes, processes*calls, passed, processes*calls-passed)
	return nil
}

// call makes as many calls as the limit lets it, and prints how many those were.
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
			passed++ // here the partner would be called
		case errors.As(err, &limited) && limited.Retry > 0 && limited.Retry <= window:
			// A patient caller would sleep for limited.Retry, or use limiter.Wait.
		default:
			return fmt.Errorf("neither passed nor limited: %w", err)
		}
	}
	fmt.Println(passed)
	return nil
}
