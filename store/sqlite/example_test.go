package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// folder creates a folder for an example, which has no t.TempDir.
func folder() (string, func()) {
	dir, err := os.MkdirTemp("", "distlock-example-")
	if err != nil {
		panic(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

func ExampleOpen() {
	dir, remove := folder()
	defer remove()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil) // all processes of the host open this file
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	locker, _ := distlock.New(store)
	lease, err := locker.Lock(ctx, "invoice/42")
	fmt.Println(lease.Name(), err, lease.Unlock(ctx))
	// Output: invoice/42 <nil> <nil>
}

func ExampleStore_Path() {
	dir, remove := folder()
	defer remove()
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	fmt.Println(filepath.Base(store.Path()))
	// Output: locks.db
}

func ExampleOpenURL() {
	dir, remove := folder()
	defer remove()
	store, err := sqlite.OpenURL(context.Background(), "sqlite://"+filepath.ToSlash(dir)+"/locks.db?synchronous=full")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Features().Name, store.Close())
	// Output: sqlite <nil>
}

func ExampleStore_Close() {
	dir, remove := folder()
	defer remove()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Close())
	err = store.Release(ctx, driver.ID{Key: "invoice/42", Owner: "secret"})
	fmt.Println(errors.Is(err, driver.ErrUnavailable))
	// Output:
	// <nil>
	// true
}

func ExampleStore_Leave() {
	dir, remove := folder()
	defer remove()
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Leave()) // the last call of a short command: the file is closed with the process
	// Output: <nil>
}
