package remote_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/remote"
)

// A server in this process, in place of the command distlock serve.
func ExampleOpen() {
	ctx := context.Background()
	v, err := server.New(ctx, mem.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(v.Local())
	defer web.Close()

	store, err := remote.Open(ctx, web.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = locker.Do(ctx, "deploy", func(ctx context.Context) error {
		fmt.Println("deploying")
		return nil
	}, distlock.TTL(10*time.Second))
	fmt.Println(err)
	// Output:
	// deploying
	// <nil>
}

// Close ends the connections and keeps the claims: they end with their TTL, or by a Release through
// another store.
func ExampleStore_Close() {
	ctx := context.Background()
	v, err := server.New(ctx, mem.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(v.Local())
	defer web.Close()

	r := request("deploy", "secret")
	for range 2 {
		store, err := remote.Open(ctx, web.URL, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		res, err := store.Acquire(ctx, r)
		fmt.Println(res.Granted, res.Fresh, err)
		_ = store.Close()
	}
	// Output:
	// true true <nil>
	// true false <nil>
}
