// Command ratelimit lets four processes share one rate limit: twenty calls in any minute, whoever makes them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock"
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
		run = func() error { return call(context.Background(), os.Args[1]) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// start runs the processes and adds up what they print.
func start() error {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out := make([]strings.Builder, processes)
	cmds := make([]*exec.Cmd, processes)
	for i := range cmds {
		cmds[i] = exec.Command(self, filepath.Join(dir, "locks.db"))
		cmds[i].Stdout, cmds[i].Stderr = &out[i], os.Stderr
		if err := cmds[i].Start(); err != nil {
			return err
		}
	}
	passed := 0
	for i, c := range cmds {
		if err := c.Wait(); err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimSpace(out[i].String()))
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
