package rueidisstore_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

func ExampleNew() {
	server, err := miniredis.Run() // a Redis in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()

	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	store, err := rueidisstore.New(client, nil)
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

func ExampleOpen() {
	server, err := miniredis.Run() // a Redis in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()

	store, err := rueidisstore.Open(ctx, "redis://"+server.Addr()+"/0?lock_prefix=billing:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	locker, _ := distlock.New(store)
	lease, err := locker.Lock(ctx, "invoice/42")
	fmt.Println(server.Exists("billing:invoice/42"), err, lease.Unlock(ctx))
	// Output: true <nil> <nil>
}
