// Command election runs three processes that elect a leader, and kills the leader twice. Each time
// another process leads when the TTL has ended, and its term is higher.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/store/sqlite"
)

const (
	name = "scheduler" // of the election
	ttl  = time.Second
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 2 {
		run = func() error { return candidate(context.Background(), os.Args[1], os.Args[2]) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// election opens the store and returns the election, and a function that closes both.
func election(ctx context.Context, file, me string) (*distlock.Election, func(), error) {
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return nil, nil, err
	}
	locker, err := distlock.New(store, distlock.TTL(ttl), distlock.Holder(me))
	if err != nil {
		return nil, nil, err
	}
	e, err := locker.Election()
	return e, func() { _ = locker.Close(ctx); _ = store.Close() }, err
}

// candidate is one candidate. It leads until it is killed.
func candidate(ctx context.Context, file, me string) error {
	e, stop, err := election(ctx, file, me)
	if err != nil {
		return err
	}
	defer stop()
	return e.Run(ctx, name, func(ctx context.Context, t *distlock.Term) error {
		// The term is a fencing token. Send it with every action of the leader, and let the
		// resource reject a lower one.
		if err := t.Publish(ctx, fmt.Appendf(nil, "%s, term %d", me, t.Fence())); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// start starts the candidates, and kills the leader.
func start() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "election")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "locks.db")
	candidates := map[string]*process.Process{}
	for _, me := range []string{"ann", "bob", "cay"} {
		if candidates[me], err = process.Start(ctx, file, me); err != nil {
			return err
		}
	}
	defer func() {
		for _, c := range candidates {
			_ = c.Kill()
		}
	}()
	e, stop, err := election(ctx, file, "observer")
	if err != nil {
		return err
	}
	defer stop()
	return watch(ctx, e, candidates)
}

// watch observes the leader, and kills the first two.
func watch(ctx context.Context, e *distlock.Election, candidates map[string]*process.Process) error {
	var last distlock.Leader
	var killed time.Time
	for leader, err := range e.Observe(ctx, name) {
		switch {
		case err != nil:
			return err
		case leader.Fence == 0 || leader.Fence == last.Fence || len(leader.Value) == 0:
			continue // no leader, the same leader, or one that has not published yet
		case leader.Fence < last.Fence:
			return fmt.Errorf("term %d after %d", leader.Fence, last.Fence)
		}
		if !killed.IsZero() && time.Since(killed) > ttl+2*time.Second { // a second for the election, and one for Observe
			return fmt.Errorf("a leader was killed, and the next one led after %v", time.Since(killed))
		}
		c := candidates[leader.Holder]
		if len(candidates) == 1 {
			fmt.Println("the last of three leads: two leaders were killed, and each was succeeded with a higher term")
			return nil
		}
		killed, last = time.Now(), leader
		if err := c.Kill(); err != nil {
			return err
		}
		delete(candidates, leader.Holder)
	}
	return context.Cause(ctx)
}
