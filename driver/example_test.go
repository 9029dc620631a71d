package driver_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// want returns a request for a whole key, as of a mutex.
func want(key, owner, holder string) driver.Request {
	return driver.Request{
		ID:     driver.ID{Key: key, Owner: owner},
		Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, Holder: holder,
	}
}

func Example() {
	ctx, store := context.Background(), mem.New()

	first, err := store.Acquire(ctx, want("invoice/42", "secret-a", "worker 1"))
	fmt.Println(first.Granted, err)

	second := want("invoice/42", "secret-b", "worker 2")
	second.QueueTTL = 3 * time.Second // join the queue
	refused, err := store.Acquire(ctx, second)
	fmt.Println(refused.Granted, refused.Blocker.Holder, err)

	held := driver.ID{Key: "invoice/42", Owner: "secret-a"}
	behind, err := store.Renew(ctx, driver.Renewal{ID: held, TTL: time.Minute})
	fmt.Println(behind, err)
	fmt.Println(store.Release(ctx, held))

	granted, err := store.Acquire(ctx, second)
	fmt.Println(granted.Granted, granted.Fence >= first.Fence+driver.Span, err)
	// Output:
	// true <nil>
	// false worker 1 <nil>
	// 1 <nil>
	// <nil>
	// true true <nil>
}

func ExampleTag() {
	fmt.Println(driver.Tag("a secret"), driver.Tag("another secret"))
	// Output: 984ca516 2a38ea58
}

func ExampleRequest_Validate() {
	r := want("invoice/42", "secret", "worker 1")
	fmt.Println(r.Validate(driver.Features{}))

	r.Weight, r.Limit = 1, 3 // one of three slots
	err := r.Validate(driver.Features{Name: "plain"})
	fmt.Println(errors.Is(err, driver.ErrInvalid), err)
	// Output:
	// <nil>
	// true driver: invalid request: plain cannot count: the limit must be 1073741824
}

func ExampleRenewal_Validate() {
	r := driver.Renewal{ID: driver.ID{Key: "invoice/42", Owner: "secret"}, TTL: time.Millisecond}
	err := r.Validate(driver.Features{MinTTL: 100 * time.Millisecond})
	fmt.Println(errors.Is(err, driver.ErrInvalid), err)
	// Output: true driver: invalid request: TTL 1ms is below 100ms
}

// fragile is a store whose claims end with its connection.
type fragile struct {
	driver.Store
	losses chan []driver.ID
}

func (f fragile) Losses(context.Context) <-chan []driver.ID { return f.losses }

func ExampleLosses() {
	ctx := context.Background()
	fmt.Println(driver.Losses(ctx, mem.New()) == nil) // its claims end only by their TTL

	store := fragile{mem.New(), make(chan []driver.ID, 1)}
	store.losses <- []driver.ID{{Key: "invoice/42", Owner: "secret"}}
	for _, id := range <-driver.Losses(ctx, store) {
		fmt.Println("gone:", id.Key)
	}
	// Output:
	// true
	// gone: invoice/42
}

// A slowStore is a store whose grants arrive late. Everything else is that of the wrapped store.
type slowStore struct {
	driver.Forward
	by time.Duration
}

func (s slowStore) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := s.Store.Acquire(ctx, r)
	time.Sleep(s.by)
	return res, err
}

func ExampleForward() {
	ctx := context.Background()
	store := slowStore{driver.Forward{Store: mem.New()}, time.Millisecond}
	_, _ = store.Acquire(ctx, want("invoice/42", "secret", "worker 1"))
	claims, err := driver.Show(ctx, store, "invoice/42")
	fmt.Println(claims[0].Holder, err)

	plain := struct{ driver.Store }{mem.New()} // has none of the optional verbs
	store = slowStore{driver.Forward{Store: plain}, time.Millisecond}
	_, err = driver.Show(ctx, store, "invoice/42")
	fmt.Println(errors.Is(err, errors.ErrUnsupported), err)
	// Output:
	// worker 1 <nil>
	// true driver: mem cannot list: unsupported operation
}

func ExampleWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // the watch ends with it
	store := mem.New()
	holder := want("invoice/42", "secret-a", "worker 1")
	waiter := want("invoice/42", "secret-b", "worker 2")
	waiter.QueueTTL = time.Minute
	_, _ = store.Acquire(ctx, holder)

	wake := driver.Watch(ctx, store, waiter.ID) // before Acquire, so that no message is missed
	_, _ = store.Acquire(ctx, waiter)
	_ = store.Release(ctx, holder.ID)
	<-wake
	res, err := store.Acquire(ctx, waiter)
	fmt.Println(res.Granted, err)
	// Output: true <nil>
}

func ExampleShow() {
	ctx, store := context.Background(), mem.New()
	_, _ = store.Acquire(ctx, want("invoice/42", "secret-a", "worker 1"))
	waiter := want("invoice/42", "secret-b", "worker 2")
	waiter.QueueTTL = time.Minute
	_, _ = store.Acquire(ctx, waiter)

	claims, err := driver.Show(ctx, store, "invoice/42")
	for _, c := range claims {
		fmt.Println(c.Holder, c.Waiting)
	}
	fmt.Println(err)
	// Output:
	// worker 1 false
	// worker 2 true
	// <nil>
}

func ExampleList() {
	ctx, store := context.Background(), mem.New()
	for _, key := range []string{"invoice/1", "invoice/2", "report"} {
		_, _ = store.Acquire(ctx, want(key, "secret of "+key, "worker 1"))
	}
	for c, err := range driver.List(ctx, store, "invoice/") {
		if err != nil {
			fmt.Println("the list is not complete:", err)
			break
		}
		fmt.Println(c.Key, c.Holder)
	}
	// Output:
	// invoice/1 worker 1
	// invoice/2 worker 1
}

func ExampleRenewAll() {
	ctx, store := context.Background(), mem.New()
	_, _ = store.Acquire(ctx, want("invoice/1", "secret", "worker 1"))

	for _, r := range driver.RenewAll(ctx, store, []driver.Renewal{
		{ID: driver.ID{Key: "invoice/1", Owner: "secret"}, TTL: time.Minute},
		{ID: driver.ID{Key: "invoice/2", Owner: "secret"}, TTL: time.Minute},
	}) {
		fmt.Println(r.Err)
	}
	// Output:
	// <nil>
	// driver: not held
}

func ExampleBreak() {
	ctx, store := context.Background(), mem.New()
	r := want("invoice/42", "secret", "worker 1")
	seen, _ := store.Acquire(ctx, r)

	// The fence makes sure that a claim which another owner was granted meanwhile does not end.
	ended, err := driver.Break(ctx, store, "invoice/42", seen.Fence, "its machine burnt down")
	fmt.Println(len(ended), ended[0].Holder, err)

	_, err = store.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute})
	fmt.Println(errors.Is(err, driver.ErrNotHeld), err)
	// Output:
	// 1 worker 1 <nil>
	// true driver: broken: "its machine burnt down"
}

func ExampleInspect() {
	info, err := driver.Inspect(context.Background(), mem.New())
	for _, f := range info.Findings {
		fmt.Printf("%v: %s: %s\n", f.Level, f.What, f.Means)
	}
	fmt.Println(err)
	// Output:
	// warning: claims are kept in this process's memory: other processes are not excluded, and a restart forgets every claim
	// <nil>
}
