package mem_test

import (
	"context"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func ExampleNew() {
	ctx, store := context.Background(), mem.New()
	request := driver.Request{
		ID: driver.ID{Key: "k", Owner: "a secret"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, Holder: "me",
	}
	first, _ := store.Acquire(ctx, request)
	request.Owner = "another secret"
	second, _ := store.Acquire(ctx, request)
	fmt.Println(first.Granted, second.Granted, second.Blocker.Holder)
	// Output: true false me
}
