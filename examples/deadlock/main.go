// Command deadlock runs two processes that move money between the same two accounts in opposite
// directions: each locks one account and then wants the other. One of them gets an error that lists
// the cycle, releases its lock and starts again. So both transfers are made.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/store/sqlite"
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 4 {
		run = func() error { return work(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4]) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// work is a teller.
func work(ctx context.Context, file, me, from, to string) error {
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store, distlock.Holder(me))
	if err != nil {
		return err
	}
	defer locker.Close(ctx)
	both := bothHold
	for {
		err := transfer(ctx, locker, from, to, both)
		var deadlock *distlock.DeadlockError
		if err == nil {
			fmt.Println(me, "moved money from", from, "to", to)
		}
		if !errors.As(err, &deadlock) {
			return err
		}
		// Its first lock is released by now, and nothing was moved.
		fmt.Println(me, "found a deadlock, and starts again:")
		for _, task := range deadlock.Cycle {
			fmt.Println("  " + task.String())
		}
		fmt.Fprint(os.Stderr, deadlock.Report()) // the same, with times and fences
		both = func() error { return nil }
	}
}

// transfer locks one account after the other. LockAll would lock both in one order, and never
// deadlock.
func transfer(ctx context.Context, locker *distlock.Locker, from, to string, both func() error) error {
	return locker.Do(ctx, from, func(ctx context.Context) error {
		if err := both(); err != nil {
			return err
		}
		// The context carries the lock of the first account.
		return locker.Do(ctx, to, func(context.Context) error { return nil })
	})
}

// bothHold reports that this teller has its first lock, and returns when the other teller has one
// too.
func bothHold() error {
	fmt.Println()
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// start starts the tellers, and prints their output.
func start() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "deadlock")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "locks.db")
	var tellers []*process.Process
	for _, args := range [][]string{{file, "teller-1", "ann", "bob"}, {file, "teller-2", "bob", "ann"}} {
		p, err := process.Start(ctx, args...)
		if err != nil {
			return err
		}
		if _, err := p.Line(); err != nil { // the teller has its first lock
			return err
		}
		tellers = append(tellers, p)
	}
	for _, p := range tellers {
		if err := p.Send("both hold"); err != nil {
			return err
		}
	}
	var all error
	for _, p := range tellers {
		_, err := io.Copy(os.Stdout, p.Out)
		all = errors.Join(all, err, p.Wait())
	}
	return all
}
