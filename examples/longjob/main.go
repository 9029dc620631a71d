// Command longjob does work that takes longer than a TTL. A normal lease is renewed in the
// background. A lease without renewal is extended by the job at each step, so that a job that hangs
// loses it. It is lost if the job does not extend it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

const (
	ttl  = 2 * time.Second
	step = ttl * 2 / 5
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store := mem.New() // a real program uses a store that its processes share
	worker, err := distlock.New(store, distlock.TTL(ttl), distlock.Holder("worker"))
	if err != nil {
		return err
	}
	defer worker.Close(ctx)
	rival, err := distlock.New(store, distlock.TTL(ttl), distlock.Holder("rival"))
	if err != nil {
		return err
	}
	defer rival.Close(ctx)

	usual, err := worker.Lock(ctx, "import")
	if err != nil {
		return err
	}
	extended, err := worker.Lock(ctx, "export", distlock.NoRenewal())
	if err != nil {
		return err
	}
	forgotten, err := worker.Lock(ctx, "cleanup", distlock.NoRenewal())
	if err != nil {
		return err
	}
	for range 4 { // more than a TTL and a half
		time.Sleep(step)
		if err := extended.Extend(ctx, ttl); err != nil {
			return err
		}
	}
	for _, lease := range []*distlock.Lease{usual, extended, forgotten} {
		_, err := rival.TryLock(ctx, lease.Name())
		fmt.Printf("%s: held after %v: %v; a rival is refused: %v\n", lease.Name(), 4*step, lease.Err() == nil, errors.Is(err, distlock.ErrHeld))
		switch err := lease.Unlock(ctx); {
		case errors.Is(err, distlock.ErrLost):
			fmt.Printf("%s: work since the loss may have overlapped with that of another holder: only the fence stops its writes\n", lease.Name())
		case err != nil:
			return err
		}
	}
	return nil
}
