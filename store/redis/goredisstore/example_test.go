package goredisstore_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/redis/goredisstore"
)

func ExampleNew() {
	server, err := miniredis.Run() // a Redis in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()

	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	store, err := goredisstore.New(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }() // before the client
	locker, _ := distlock.New(store)
	lease, err := locker.Lock(ctx, "invoice/42")
	fmt.Println(lease.Name(), err, lease.Unlock(ctx))
	// Output: invoice/42 <nil> <nil>
}
