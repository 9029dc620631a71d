package open_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/open"
)

func charge(context.Context, uint64) error {
	fmt.Println("charged")
	return nil
}

// README.md quotes the body.
func quoteOpen(ctx context.Context, url string) error {
	locker, err := open.Locker(ctx, url) // such as "postgres://user@host/database"
	if err != nil {
		return err
	}
	defer locker.Close(ctx) // releases all locks that are still held, and closes the store
	err = locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		// ctx is cancelled before another process can acquire the lock.
		return charge(ctx, distlock.FromContext(ctx).Fence())
	})
	if errors.Is(err, distlock.ErrLost) {
		log.Print("the lock was lost before charge returned")
	}
	return err
}

// ExampleLocker acquires a lock in the store that a URL names.
func ExampleLocker() {
	dir, remove := folder()
	defer remove()
	fmt.Println(quoteOpen(context.Background(), "sqlite://"+dir+"/locks.db"))
	// Output:
	// charged
	// <nil>
}
