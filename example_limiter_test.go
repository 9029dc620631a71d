package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLocker_Limiter() {
	ctx, locker := context.Background(), newLocker()

	mails, err := locker.Limiter(2, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		err := mails.Allow(ctx, "mail/ann")
		var limited *distlock.LimitError
		if errors.As(err, &limited) {
			fmt.Println("again in a minute:", limited.Retry.Round(time.Minute))
			continue
		}
		fmt.Println("sent", err)
	}
	// Output:
	// sent <nil>
	// sent <nil>
	// again in a minute: 1m0s
}

func ExampleLimiter_Allow() {
	ctx, locker := context.Background(), newLocker()
	bytes, _ := locker.Limiter(1_000_000, time.Minute)

	fmt.Println(bytes.Allow(ctx, "upload", distlock.Weight(900_000)))
	err := bytes.Allow(ctx, "upload", distlock.Weight(900_000))
	fmt.Println(errors.Is(err, distlock.ErrLimited))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_Wait() {
	ctx, locker := context.Background(), newLocker()
	calls, _ := locker.Limiter(1, 100*time.Millisecond)

	began := time.Now()
	for range 3 {
		if err := calls.Wait(ctx, "partner-api"); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 200*time.Millisecond)
	// Output: true
}

// Processes that make one call each, as commands of a shell do, take what they need and no share of a hundred.
func ExampleExact() {
	ctx, locker := context.Background(), newLocker()
	calls, _ := locker.Limiter(100_000, time.Hour)

	fmt.Println(calls.Allow(ctx, "partner-api", distlock.Exact()))
	why, err := calls.Why(ctx, "partner-api")
	fmt.Println(why.Holders[0].Weight, err)
	// Output:
	// <nil>
	// 1 <nil>
}
