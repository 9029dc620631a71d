package redis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredis"
)

func ExampleStore_Close() {
	server, err := miniredis.Run() // a Redis in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	c := goclient.NewClient(&goclient.Options{Addr: server.Addr()})
	defer func() { _ = c.Close() }()
	store, err := goredis.New(c, &redis.Options{Prefix: "billing:"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = driver.Watch(ctx, store, driver.ID{Key: "invoice/42"})
	fmt.Println(store.Close()) // the subscription is over, and so the client can be closed
	// Output: <nil>
}
