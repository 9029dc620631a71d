package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/quorum"
)

func ExampleNew() {
	ctx := context.Background()
	nodes := []driver.Store{mem.New(), mem.New(), mem.New()}                      // servers that do not copy from each other
	store, err := quorum.New(ctx, nodes, &quorum.Options{NodeLimit: time.Second}) // they may be far away
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	locker, _ := distlock.New(store)
	err = locker.Do(ctx, "invoice/42", func(context.Context) error {
		_, err := locker.TryLock(ctx, "invoice/42")
		fmt.Println(errors.Is(err, distlock.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleStore_Close() {
	ctx := context.Background()
	store, err := quorum.New(ctx, []driver.Store{mem.New(), mem.New(), mem.New()}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	store.Close() // the nodes stay open
	fmt.Println(store.Release(ctx, driver.ID{Key: "invoice/42", Owner: "secret"}))
	// Output: quorum: the store is closed: driver: store unavailable
}
