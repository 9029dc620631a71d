package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLocker_LockAll() {
	ctx, locker := context.Background(), newLocker()

	leases, err := locker.LockAll(ctx, []string{"account/7", "account/3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Unlock(ctx)
	work := leases.Context(ctx) // ends as soon as one of them is lost
	for lease := range leases.All() {
		fmt.Println(lease.Name(), lease.Fence() > 0, work.Err())
	}
	// Output:
	// account/3 true <nil>
	// account/7 true <nil>
}

func ExampleLocker_TryLockAll() {
	ctx, locker := context.Background(), newLocker()
	other, _ := locker.Lock(ctx, "account/7")

	_, err := locker.TryLockAll(ctx, []string{"account/3", "account/7"})
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	lease, err := locker.TryLock(ctx, "account/3") // nothing of it was kept
	fmt.Println(err, lease.Unlock(ctx), other.Unlock(ctx))
	// Output:
	// true
	// <nil> <nil> <nil>
}

func ExampleLeases_Lease() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Lease("b").Name(), leases.Lease("c") == nil)
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// b true
	// <nil>
}

func ExampleLeases_All() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"b", "a"})

	for lease := range leases.All() {
		fmt.Println(lease.Name())
	}
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// a
	// b
	// <nil>
}

func ExampleLeases_Context() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	work := leases.Context(ctx)
	fmt.Println(work.Err(), leases.Unlock(ctx))
	fmt.Println(context.Cause(work))
	// Output:
	// <nil> <nil>
	// distlock: lease released
}

func ExampleLeases_Done() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Lease("a").Unlock(ctx)) // one of them is enough
	<-leases.Done()
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// <nil>
	// <nil>
}

func ExampleLeases_Err() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Err(), leases.Unlock(ctx))
	fmt.Println(leases.Err())
	// Output:
	// <nil> <nil>
	// distlock: lease released
}

func ExampleLeases_Valid() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"}, distlock.TTL(time.Minute))

	fmt.Println(leases.Valid(time.Second), leases.Valid(time.Hour))
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// true false
	// <nil>
}

func ExampleLeases_Unlock() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Unlock(ctx))
	// Output: <nil>
}

func ExampleLeases_Ensure() {
	ctx, locker := context.Background(), newLocker()
	leases, err := locker.LockAll(ctx, []string{"a", "b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Unlock(ctx)

	fmt.Println(leases.Ensure(ctx, 10*time.Second))
	// Output: <nil>
}
