package goredis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	client "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/redis/goredis"
)

func ExampleNew() {
	server, err := miniredis.Run() // a Redis in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()

	c := client.NewClient(&client.Options{Addr: server.Addr()})
	defer func() { _ = c.Close() }()
	store, err := goredis.New(c, nil)
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
