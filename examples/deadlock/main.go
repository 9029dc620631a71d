// Command deadlock has two processes move money between the same two accounts, in opposite directions: each locks one account and then wants the
// other's. One of them is told who waits for whom, gives its lock back and begins anew; so both transfers are made.
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
		// The lock that it had is given back by now, and nothing was moved.
		fmt.Println(me, "was told, and begins anew:")
		for _, party := range deadlock.Cycle {
			fmt.Println("  " + party.String())
		}
		fmt.Fprint(os.Stderr, deadlock.Report()) // the same, with times and fences
		both = func() error { return nil }
	}
}

// transfer locks one account after the other: LockAll would take both in one order, and never wait in a circle.
func transfer(ctx context.Context, locker *distlock.Locker, from, to string, both func() error) error {
	return locker.Do(ctx, from, func(ctx context.Context) error {
		if err := both(); err != nil {
			return err
		}
		// The context tells that this is done under the lock of the first account.
		return locker.Do(ctx, to, func(context.Context) error { return nil })
	})
}

// bothHold says that this teller has its first lock, and returns when the other one has too.
func bothHold() error {
	fmt.Println()
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// start starts the tellers, and tells what they say.
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
		if _, err := p.Line(); err != nil { // it has its first lock
			return err
		}
		tellers = append(tellers, p)
	}
	for _, p := range tellers {
		if err := p.Tell("both hold"); err != nil {
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
