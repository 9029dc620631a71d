package open_test

import (
	"context"
	"fmt"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/open"
)

func charge(context.Context) error {
	fmt.Println("charged")
	return nil
}

// README.md quotes the body.
func quoteOpen(ctx context.Context, url string) error {
	source, err := open.Open(ctx, url) // "postgres://user@host/database", "redis://host:6379/0", "sqlite:///var/lib/app/locks.db"
	if err != nil {
		return err
	}
	defer source.Close()
	locker, err := distlock.New(source.Store)
	if err != nil {
		return err
	}
	defer locker.Close(ctx) // releases all leases that are still held
	return locker.Do(ctx, "invoice/42", charge)
}

// A lock in a store that a URL names.
func ExampleOpen_locker() {
	dir, remove := folder()
	defer remove()
	fmt.Println(quoteOpen(context.Background(), "sqlite://"+dir+"/locks.db"))
	// Output:
	// charged
	// <nil>
}
