package distlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock"
)

func ExampleLocker_Semaphore() {
	ctx, locker := context.Background(), newLocker()

	gpus, err := locker.Semaphore(4)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = gpus.Do(ctx, "gpu", func(ctx context.Context) error {
		fmt.Println("one of", gpus.Size())
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of 4
	// <nil>
}

func ExampleSemaphore_Acquire() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(4)

	lease, err := gpus.Acquire(ctx, "gpu", distlock.Weight(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock(ctx)
	_, err = gpus.TryAcquire(ctx, "gpu", distlock.Weight(2))
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	// Output: true
}

func ExampleSemaphore_TryAcquire() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(1)

	lease, err := gpus.TryAcquire(ctx, "gpu")
	fmt.Println(lease.Mode(), err)
	_, err = gpus.TryAcquire(ctx, "gpu")
	fmt.Println(errors.Is(err, distlock.ErrHeld), lease.Unlock(ctx))
	// Output:
	// counted <nil>
	// true <nil>
}

func ExampleSemaphore_Do() {
	locker := newLocker()
	uploads, _ := locker.Semaphore(2)

	err := uploads.Do(context.Background(), "uploads", func(ctx context.Context) error {
		fmt.Println("holding", distlock.FromContext(ctx).Name())
		return nil
	}, distlock.Weight(2))
	fmt.Println(err)
	// Output:
	// holding uploads
	// <nil>
}

func ExampleSemaphore_Resize() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(1)
	first, _ := gpus.Acquire(ctx, "gpu")

	fmt.Println(gpus.Resize(2))
	second, err := gpus.TryAcquire(ctx, "gpu")
	fmt.Println(err, first.Unlock(ctx), second.Unlock(ctx))
	// Output:
	// <nil>
	// <nil> <nil> <nil>
}

func ExampleSemaphore_Size() {
	gpus, _ := newLocker().Semaphore(4)
	fmt.Println(gpus.Size())
	// Output: 4
}

func ExampleWeight() {
	ctx, locker := context.Background(), newLocker()
	memory, _ := locker.Semaphore(64) // gigabytes

	lease, err := memory.TryAcquire(ctx, "worker-7", distlock.Weight(48))
	fmt.Println(lease.Name(), err)
	_, err = memory.Acquire(ctx, "worker-7", distlock.Weight(65))
	fmt.Println(err)
	// Output:
	// worker-7 <nil>
	// distlock: invalid argument: "worker-7": a weight of 65 is over the limit of 64
}
