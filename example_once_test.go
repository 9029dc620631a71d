package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleNewOnce() {
	ctx, locker := context.Background(), newLocker()
	errNoStock := errors.New("out of stock")

	orders, err := distlock.NewOnce(locker, 24*time.Hour, &distlock.OnceOptions[string]{
		Failures: func(err error) bool { return errors.Is(err, errNoStock) }, // others are tried again
	})
	if err != nil {
		fmt.Println(err) // the store cannot keep records
		return
	}
	order := func(context.Context) (string, error) { return "", errNoStock }
	_, err = orders.Do(ctx, "order/1", order)
	fmt.Println(err)
	_, err = orders.Do(ctx, "order/1", order)
	fmt.Println(err)
	// Output:
	// out of stock
	// distlock: "order/1" failed before: out of stock
}

func ExampleOnce_Do() {
	ctx, locker := context.Background(), newLocker()
	payments, _ := distlock.NewOnce[int](locker, 24*time.Hour, nil)

	pay := func(context.Context) (int, error) {
		fmt.Println("paying")
		return 4711, nil
	}
	for range 3 {
		receipt, err := payments.Do(ctx, "invoice/42", pay)
		fmt.Println(receipt, err)
	}
	// Output:
	// paying
	// 4711 <nil>
	// 4711 <nil>
	// 4711 <nil>
}

func ExampleOnce_Result() {
	ctx, locker := context.Background(), newLocker()
	payments, _ := distlock.NewOnce[int](locker, 24*time.Hour, nil)

	_, found, err := payments.Result(ctx, "invoice/42")
	fmt.Println(found, err)
	_, _ = payments.Do(ctx, "invoice/42", func(context.Context) (int, error) { return 4711, nil })
	receipt, found, err := payments.Result(ctx, "invoice/42")
	fmt.Println(receipt, found, err)
	// Output:
	// false <nil>
	// 4711 true <nil>
}
