package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleHeldError() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "report")

	_, err := locker.TryLock(ctx, "report")
	var held *distlock.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Holder, "has", held.Name)
	}
	// Output: host:1 has report
}

func ExampleLostError() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "report", distlock.MaxHold(10*time.Millisecond))
	<-lease.Done()
	var lost *distlock.LostError
	if errors.As(lease.Unlock(ctx), &lost) {
		fmt.Println(lost.Name, lost.Reason)
	}
	// Output: report maxhold
}

func ExampleOpError() {
	err := error(&distlock.OpError{Op: "release", Name: "report", Unknown: true, Err: context.DeadlineExceeded})
	fmt.Println(errors.Is(err, distlock.ErrUnknown), err) // it may be free, or taken until its TTL is over
	// Output: true distlock: release "report": outcome unknown: context deadline exceeded
}

func ExampleErrInvalid() {
	ctx, locker := context.Background(), newLocker()

	_, err := locker.Lock(ctx, "two\nlines")
	fmt.Println(errors.Is(err, distlock.ErrInvalidName), errors.Is(err, distlock.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true true
	// distlock: invalid name: "two\nlines" contains U+000A
}
