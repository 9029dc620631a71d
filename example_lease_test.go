package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLease_Context() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42", distlock.MaxHold(10*time.Millisecond))
	work := lease.Context(ctx) // for everything that is done under the lock
	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), distlock.ErrLost), context.Cause(work))
	// Output: true distlock: lease of "invoice/42" lost: longest hold reached
}

func ExampleLease_Fence() {
	ctx, locker := context.Background(), newLocker()
	seen := uint64(0) // in the database, beside what is changed
	write := func(fence uint64) bool {
		if fence < seen {
			return false // from a holder that has been succeeded
		}
		seen = fence
		return true
	}

	old, _ := locker.Lock(ctx, "invoice/42")
	_ = old.Unlock(ctx)
	lease, _ := locker.Lock(ctx, "invoice/42")
	fmt.Println(write(lease.Fence()), write(old.Fence()))
	// Output: true false
}

func ExampleLease_Unlock() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42")
	if err := lease.Unlock(ctx); errors.Is(err, distlock.ErrLost) {
		fmt.Println("another may have worked at the same time")
	}
	fmt.Println(lease.Err(), lease.Unlock(ctx)) // twice does no harm
	// Output: distlock: lease released <nil>
}

func ExampleLease_Extend() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42", distlock.NoRenewal(), distlock.TTL(10*time.Second))
	fmt.Println(lease.Valid(time.Minute))
	err := lease.Extend(ctx, time.Hour)
	fmt.Println(lease.Valid(time.Minute), err)
	// Output:
	// false
	// true <nil>
}

func ExampleLease_Valid() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42", distlock.TTL(30*time.Second))
	fmt.Println(lease.Valid(10*time.Second), lease.Valid(time.Minute))
	// Output: true false
}

func ExampleLease_Err() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42")
	fmt.Println(lease.Err())
	_ = lease.Unlock(ctx)
	fmt.Println(lease.Err())
	// Output:
	// <nil>
	// distlock: lease released
}

func ExampleLease_Done() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42", distlock.MaxHold(10*time.Millisecond))
	<-lease.Done()
	fmt.Println(lease.Err())
	// Output: distlock: lease of "invoice/42" lost: longest hold reached
}

func ExampleLease_Until() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42", distlock.TTL(time.Hour))
	fmt.Println(time.Until(lease.Until()).Round(time.Minute)) // the TTL less a margin
	// Output: 59m0s
}

func ExampleLease_Wanted() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "import")
	for step := range 3 {
		if lease.Wanted() {
			break // let others in between two steps
		}
		fmt.Println("step", step)
	}
	// Output:
	// step 0
	// step 1
	// step 2
}

func ExampleLease_Name() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42")
	fmt.Println(lease.Name())
	// Output: invoice/42
}

func ExampleLease_Mode() {
	ctx, locker := context.Background(), newLocker()

	writer, _ := locker.Lock(ctx, "prices")
	reader, _ := locker.RLock(ctx, "stock")
	fmt.Println(writer.Mode(), reader.Mode())
	// Output: exclusive shared
}

// Before a step of ten seconds that must not be done by two.
func ExampleLease_Ensure() {
	ctx, locker := context.Background(), newLocker()
	lease, err := locker.Lock(ctx, "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock(ctx)

	fmt.Println(lease.Ensure(ctx, 10*time.Second))
	fmt.Println(errors.Is(lease.Ensure(ctx, time.Hour), distlock.ErrInvalid)) // its TTL is 30 s
	// Output:
	// <nil>
	// true
}
