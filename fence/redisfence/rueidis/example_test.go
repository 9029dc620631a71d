package rueidis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	ruclient "github.com/redis/rueidis"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/redisfence"
	"github.com/distlock/distlock/fence/redisfence/rueidis"
)

func ExampleNew() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := ruclient.NewClient(ruclient.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	guard, err := redisfence.New(rueidis.New(client), nil)
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
