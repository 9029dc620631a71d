// Command cache has three servers answer from one cache. When it is stale, one request refreshes it, and all others are answered with what
// is there: they do not wait, and the source is asked one time.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/store/sqlite"
)

const (
	servers  = 3
	requests = 50 // of each
	rounds   = 4  // how often the cache becomes stale

	slow = 100 * time.Millisecond // what the source takes to answer: all requests have come by then
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 2 {
		run = func(ctx context.Context) error { return serve(ctx, os.Args[1], os.Args[2]) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// start starts the servers, and has requests come to all of them at once whenever the cache is stale.
func start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "cache")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all []*process.Process
	for i := range servers {
		p, err := process.Start(ctx, dir, fmt.Sprint("server ", i+1))
		if err != nil {
			return err
		}
		if _, err := p.Line(); err != nil { // it is ready
			return err
		}
		all = append(all, p)
	}
	for round := range rounds {
		for _, p := range all {
			if err := p.Tell(fmt.Sprint("prices of day ", round+1)); err != nil {
				return err
			}
		}
		for _, p := range all {
			if _, err := p.Line(); err != nil { // it has answered
				return err
			}
		}
	}
	for _, p := range all {
		if err := p.End(); err != nil {
			return err
		}
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		return err
	}
	fmt.Printf("%d requests, %d times stale: the source was asked %d times\n", servers*requests*rounds, rounds, bytes.Count(asked, []byte("\n")))
	return nil
}

// serve is a server. A line that it reads is what is in force from now on, and brings its requests.
func serve(ctx context.Context, dir, me string) error {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store, distlock.Holder(me))
	if err != nil {
		return err
	}
	defer locker.Close(ctx)
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("answered") {
		var wg sync.WaitGroup
		for range requests {
			wg.Go(func() {
				if err := answer(ctx, locker, dir, in.Text()); err != nil {
					log.Print(err)
				}
			})
		}
		wg.Wait()
	}
	return nil
}

// answer answers a request, and refreshes the cache if it is stale and nobody else does.
func answer(ctx context.Context, locker *distlock.Locker, dir, now string) error {
	if fresh, err := cached(dir, now); fresh || err != nil {
		return err
	}
	_, err := locker.TryDo(ctx, "refresh/prices", func(context.Context) error {
		if fresh, err := cached(dir, now); fresh || err != nil { // somebody did between the look and the lock
			return err
		}
		return refresh(dir, now)
	})
	return err // nil too if somebody else is at it: the answer is stale then
}

// cached reports whether the cache has what is in force now.
func cached(dir, now string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cache"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(b) == now, err
}

// refresh asks the source, which counts how often it is asked, and stores what it says.
func refresh(dir, now string) error {
	f, err := os.OpenFile(filepath.Join(dir, "asked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, now); err != nil {
		return errors.Join(err, f.Close())
	}
	time.Sleep(slow)
	return errors.Join(f.Close(), os.WriteFile(filepath.Join(dir, "cache"), []byte(now), 0o600))
}
