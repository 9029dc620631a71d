// Command cache has three servers answer from one cache. When it is stale, one request refreshes it, and all others are answered with what
// is there: they do not wait, and the source is asked one time.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

const (
	servers  = 3
	requests = 50 // of each
	rounds   = 4  // how often the cache becomes stale
)

// A cache is what the servers share beside the locks.
type cache struct {
	fresh   atomic.Int64 // the round that its content is of
	fetches atomic.Int64 // how often the source was asked
}

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store := mem.New() // in earnest, one that the servers share
	var lockers []*distlock.Locker
	for i := range servers {
		l, err := distlock.New(store, distlock.Holder(fmt.Sprint("server ", i+1)))
		if err != nil {
			return err
		}
		defer l.Close(ctx)
		lockers = append(lockers, l)
	}
	var c cache
	for round := range int64(rounds) {
		var wg sync.WaitGroup
		for _, l := range lockers {
			for range requests {
				wg.Go(func() {
					if err := c.answer(ctx, l, round+1); err != nil {
						log.Print(err)
					}
				})
			}
		}
		wg.Wait()
	}
	if n := c.fetches.Load(); n != rounds {
		return fmt.Errorf("the source was asked %d times", n)
	}
	fmt.Printf("%d requests, %d times stale: the source was asked %d times\n", servers*requests*rounds, rounds, c.fetches.Load())
	return nil
}

// answer answers a request, and refreshes the cache if it is stale and nobody else does.
func (c *cache) answer(ctx context.Context, l *distlock.Locker, round int64) error {
	if c.fresh.Load() == round {
		return nil
	}
	_, err := l.TryDo(ctx, "refresh/prices", func(context.Context) error {
		if c.fresh.Load() == round { // somebody did between the look and the lock
			return nil
		}
		c.fetches.Add(1)
		c.fresh.Store(round)
		return nil
	})
	return err // nil too if somebody else is at it: the answer is stale then
}
