package redisfence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/redisfence"
	"github.com/distlock/distlock/fence/redisfence/goredisfence"
)

// docs/fencing.md quotes the bodies of functions here, and the examples run them.

// server starts a small Redis in memory, and returns a client of it.
func server() (*redis.Client, func()) {
	s, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	return c, func() { _ = c.Close(); s.Close() }
}

// held returns the proof of a lease with this fence.
func held(name string, n uint64) fence.Proof {
	p, err := fence.New(name, n)
	if err != nil {
		panic(err)
	}
	return p
}

func quoteRedis(ctx context.Context, client *redis.Client, lease fence.Lease) error {
	guard, err := redisfence.New(goredisfence.New(client), nil)
	if err != nil {
		return err
	}
	return guard.Set(ctx, lease, "{invoice/42}:state", "paid") // ErrStale, if somebody else has held the lock since
}

func ExampleNew() {
	client, stop := server()
	defer stop()
	ctx := context.Background()
	fmt.Println(quoteRedis(ctx, client, held("invoice/42", 128)))
	fmt.Println(quoteRedis(ctx, client, held("invoice/42", 1)))
	// Output:
	// <nil>
	// fence: "invoice/42": fence 1 is stale, the highest so far is 128
}

func ExampleGuard_Set() {
	client, stop := server()
	defer stop()
	guard, err := redisfence.New(goredisfence.New(client), nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	fmt.Println(guard.Set(ctx, held("invoice/42", 128), "invoice/42", "paid"))
	err = guard.Set(ctx, held("invoice/42", 1), "invoice/42", "open")
	fmt.Println(errors.Is(err, fence.ErrStale), client.Get(ctx, "invoice/42").Val())
	// Output:
	// <nil>
	// true paid
}

func ExampleGuard_Del() {
	client, stop := server()
	defer stop()
	guard, err := redisfence.New(goredisfence.New(client), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(guard.Del(context.Background(), held("invoice/42", 128), "invoice/42"))
	// Output: <nil>
}

func ExampleGuard_Do() {
	client, stop := server()
	defer stop()
	guard, err := redisfence.New(goredisfence.New(client), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(guard.Do(context.Background(), held("queue", 128), "queue", "RPUSH", "a", "b"))
	// Output: 2 <nil>
}

func ExampleGuard_Advance() {
	client, stop := server()
	defer stop()
	guard, err := redisfence.New(goredisfence.New(client), nil)
	if err != nil {
		panic(err)
	}
	var register fence.Register = guard // for fence.Middleware
	ctx := context.Background()
	fmt.Println(register.Advance(ctx, held("ledger", 128)))
	fmt.Println(register.Advance(ctx, held("ledger", 1)))
	// Output:
	// <nil>
	// fence: "ledger": fence 1 is stale, the highest so far is 128
}
