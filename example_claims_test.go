package distlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLocker_Why() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "nightly report", distlock.Note("for the auditors"))

	why, err := locker.Why(ctx, "nightly report")
	fmt.Println(why.Holders[0].Holder, why.Holders[0].Note, len(why.Waiters), err)

	why, _ = locker.Why(ctx, "invoice/42")
	fmt.Println(why)
	// Output:
	// host:1 for the auditors 0 <nil>
	// "invoice/42" is free
}

func ExampleLocker_Claims() {
	ctx, locker := context.Background(), newLocker()
	for _, name := range []string{"invoice/1", "invoice/2", "report"} {
		_, _ = locker.Lock(ctx, name)
	}

	for claim, err := range locker.Claims(ctx, "invoice/") {
		fmt.Println(claim.Name, claim.Holder, claim.Mode, err)
	}
	// Output:
	// invoice/1 host:1 exclusive <nil>
	// invoice/2 host:1 exclusive <nil>
}

func ExampleReason_String() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "report")

	why, _ := locker.Why(ctx, "report")
	why.Holders[0].Held, why.Holders[0].Fence = 90*time.Second, 1789000000000000 // for this example
	fmt.Println(why)
	// Output: "report" is held by host:1 for 1m30s (fence 1789000000000000); 0 in the queue
}

func ExampleSemaphore_Why() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(4)
	_, _ = gpus.Acquire(ctx, "gpu")

	why, err := gpus.Why(ctx, "gpu")
	fmt.Println(len(why.Holders), "of", gpus.Size(), "held, by", why.Holders[0].Holder, err)
	// Output: 1 of 4 held, by host:1 <nil>
}

func ExampleLimiter_Why() {
	ctx, locker := context.Background(), newLocker()
	mails, _ := locker.Limiter(10, time.Minute)
	_ = mails.Allow(ctx, "mail/ann")

	why, err := mails.Why(ctx, "mail/ann")
	fmt.Println(len(why.Holders), "passed, and counts for", why.Holders[0].Left.Round(time.Minute), err)
	// Output: 1 passed, and counts for 1m0s <nil>
}

func ExampleLocker_WhyAll() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(4)
	_, _ = gpus.Acquire(ctx, "gpu")
	_, _ = locker.Lock(ctx, "gpu") // another thing, of the same name

	all, err := locker.WhyAll(ctx, "gpu")
	for _, why := range all {
		fmt.Printf("%q %s %v\n", why.Kind, why.Holders[0].Mode, err)
	}
	// Output:
	// "" exclusive <nil>
	// "sem" counted <nil>
}
