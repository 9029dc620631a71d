package distlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock"
)

func ExampleDeadlockError() {
	ctx, locker := context.Background(), newLocker()

	ann, _ := locker.Lock(ctx, "ann")
	bob, _ := locker.Lock(ctx, "bob")
	other := make(chan error)
	go func() {
		_, err := locker.Lock(ann.Context(ctx), "bob") // the context carries the lock of ann
		other <- err
	}()

	_, err := locker.Lock(bob.Context(ctx), "ann")
	var deadlock *distlock.DeadlockError
	if errors.As(err, &deadlock) {
		for _, task := range deadlock.Cycle {
			fmt.Println("one holds", task.Holds[0].Name, "and waits for", task.Waits.Name)
		}
	}
	_ = bob.Unlock(ctx) // the other call continues
	fmt.Println(<-other)
	// Output:
	// one holds bob and waits for ann
	// one holds ann and waits for bob
	// <nil>
}

func ExampleDeadlockError_Report() {
	ctx, locker := context.Background(), newLocker()

	err := locker.Do(ctx, "report", func(ctx context.Context) error {
		return locker.Do(ctx, "report", func(context.Context) error { return nil }) // there is no reentrancy
	})
	var deadlock *distlock.DeadlockError
	if errors.As(err, &deadlock) {
		deadlock.Cycle[0].Holds[0].Held, deadlock.Cycle[0].Holds[0].Fence = 0, 0 // for this example
		fmt.Print(deadlock.Report())
	}
	// Output:
	// deadlock: one waits for itself
	//   host:1 (its call failed)
	//     holds     "report" for 0s
	//     waits for "report" for 0s
}
