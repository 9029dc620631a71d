package redis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/redis/goredisstore"
)

func ExampleStore_Close() {
	server, err := miniredis.Run() // a Redis in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	store, err := goredisstore.New(client, &goredisstore.Options{Prefix: "billing:"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = driver.Watch(ctx, store, driver.ID{Key: "invoice/42"})
	fmt.Println(store.Close()) // ends the subscription, so that the client can be closed
	// Output: <nil>
}
