package distlock_test

import (
	"context"
	"fmt"

	"github.com/distlock/distlock"
)

func ExampleLocker_Do() {
	ctx, locker := context.Background(), newLocker()

	err := locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		fmt.Println("alone with the invoice") // ctx ends if the lock is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// alone with the invoice
	// <nil>
}

func ExampleLocker_TryDo() {
	ctx, locker := context.Background(), newLocker()

	ran, err := locker.TryDo(ctx, "nightly report", func(ctx context.Context) error {
		fmt.Println("writing the report")
		return nil
	})
	fmt.Println(ran, err) // false and no error: another process is at it
	// Output:
	// writing the report
	// true <nil>
}

func ExampleDoValue() {
	ctx, locker := context.Background(), newLocker()

	number, err := distlock.DoValue(ctx, locker, "invoice numbers", func(ctx context.Context) (int, error) {
		return 43, nil
	})
	fmt.Println(number, err)
	// Output: 43 <nil>
}

func ExampleFromContext() {
	ctx, locker := context.Background(), newLocker()

	save := func(ctx context.Context) {
		if lease := distlock.FromContext(ctx); lease != nil {
			fmt.Println("saving under", lease.Name(), "with a fence:", lease.Fence() > 0)
		}
	}
	_ = locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		save(ctx)
		return nil
	})
	// Output: saving under invoice/42 with a fence: true
}
