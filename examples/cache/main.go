// Command cache runs three servers with one cache. When the cache is stale, one request refreshes
// it. All other requests get the stale data: they do not wait, and the source is called one time.
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

	slow = 100 * time.Millisecond // the response time of the source: all requests have come by then
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

// start starts the servers, and sends requests to all of them at the same time whenever the cache
// is stale.
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
		if _, err := p.Line(); err != nil { // the server is ready
			return err
		}
		all = append(all, p)
	}
	for round := range rounds {
		for _, p := range all {
			if err := p.Send(fmt.Sprint("prices of day ", round+1)); err != nil {
				return err
			}
		}
		for _, p := range all {
			if _, err := p.Line(); err != nil { // the server has answered
				return err
			}
		}
	}
	for _, p := range all {
		if err := p.End(); err != nil {
			return err
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	fmt.Printf("%d requests, %d times stale: the source was called %d times\n", servers*requests*rounds, rounds, bytes.Count(calls, []byte("\n")))
	return nil
}

// serve is a server. Each line that it reads is the new data of the source, and starts its
// requests.
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
		if fresh, err := cached(dir, now); fresh || err != nil { // another request refreshed it between the check and the lock
			return err
		}
		return refresh(dir, now)
	})
	return err // also nil if another request refreshes it: this response is stale then
}

// cached reports whether the cache has the current data.
func cached(dir, now string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cache"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(b) == now, err
}

// refresh calls the source, which counts its calls, and stores the result.
func refresh(dir, now string) error {
	f, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, now); err != nil {
		return errors.Join(err, f.Close())
	}
	time.Sleep(slow)
	return errors.Join(f.Close(), os.WriteFile(filepath.Join(dir, "cache"), []byte(now), 0o600))
}
