package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		panic(err)
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		panic(err)
	}
	err = locker.Do(ctx, "nightly", func(context.Context) error {
		fmt.Println("one process of this host is here")
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: one process of this host is here
}

func ExampleOpenURL() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.OpenURL(ctx, "sqlite://"+filepath.ToSlash(dir)+"/locks.db?synchronous=full")
	if err != nil {
		panic(err)
	}
	defer store.Close()
	fmt.Println(store.Features().Name)
	// Output: sqlite
}

func ExampleStore_Leave() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		panic(err)
	}
	// The last call of a command that is run often: what is still open goes with the process.
	if err := store.Leave(); err != nil {
		panic(err)
	}
	fmt.Println("left")
	// Output: left
}
