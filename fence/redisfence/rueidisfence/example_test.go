package rueidisfence_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/redisfence"
	"github.com/distlock/distlock/fence/redisfence/rueidisfence"
)

func ExampleNew() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	guard, err := redisfence.New(rueidisfence.New(client), nil)
	if err != nil {
		panic(err)
	}
	lease, err := fence.New("invoice/42", 128) // or a *distlock.Lease
	if err != nil {
		panic(err)
	}
	fmt.Println(guard.Set(context.Background(), lease, "invoice/42", "paid"))
	// Output: <nil>
}
