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
	// Output: report max_hold
}

func ExampleOpError() {
	err := error(&distlock.OpError{Op: "release", Name: "report", Unknown: true, Err: context.DeadlineExceeded})
	fmt.Println(errors.Is(err, distlock.ErrUnknown), err) // the name is free, or held until the TTL ends
	// Output: true distlock: release "report": outcome unknown: context deadline exceeded
}

func ExampleArgumentError() {
	ctx, locker := context.Background(), newLocker()

	_, err := locker.Lock(ctx, "two\nlines")
	var wrong *distlock.ArgumentError
	if errors.As(err, &wrong) {
		fmt.Println(errors.Is(err, distlock.ErrInvalid), wrong.What)
	}
	fmt.Println(err)
	// Output:
	// true name
	// distlock: invalid name: "two\nlines" contains U+000A
}

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
		return locker.Do(ctx, "report", func(context.Context) error { return nil }) // locks are not reentrant
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

func ExampleLocker_Status() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "nightly report", distlock.Note("for the auditors"))

	why, err := locker.Status(ctx, distlock.KindLock, "nightly report")
	fmt.Println(why.Holders[0].Holder, why.Holders[0].Note, len(why.Waiters), err)

	why, _ = locker.Status(ctx, distlock.KindLock, "invoice/42")
	fmt.Println(why)
	// Output:
	// host:1 for the auditors 0 <nil>
	// "invoice/42" is free
}

func ExampleLocker_List() {
	ctx, locker := context.Background(), newLocker()
	for _, name := range []string{"invoice/1", "invoice/2", "report"} {
		_, _ = locker.Lock(ctx, name)
	}

	for claim, err := range locker.List(ctx, distlock.KindAny, "invoice/") {
		fmt.Println(claim.Name, claim.Holder, claim.Mode, err)
	}
	// Output:
	// invoice/1 host:1 exclusive <nil>
	// invoice/2 host:1 exclusive <nil>
}

func ExampleStatus_String() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "report")

	why, _ := locker.Status(ctx, distlock.KindLock, "report")
	why.Holders[0].Held, why.Holders[0].Fence = 90*time.Second, 1789000000000000 // for this example
	fmt.Println(why)
	// Output: "report" is held by host:1 for 1m30s (fence 1789000000000000); 0 in the queue
}

func ExampleLocker_Status_semaphore() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(4)
	_, _ = gpus.Acquire(ctx, "gpu")

	why, err := locker.Status(ctx, distlock.KindSemaphore, "gpu")
	fmt.Println(len(why.Holders), "of", gpus.Size(), "held, by", why.Holders[0].Holder, err)
	// Output: 1 of 4 held, by host:1 <nil>
}

func ExampleLocker_Status_rateLimit() {
	ctx, locker := context.Background(), newLocker()
	mails, _ := locker.Limiter(10, time.Minute)
	_ = mails.Allow(ctx, "mail/ann")

	why, err := locker.Status(ctx, distlock.KindRateLimit, "mail/ann")
	fmt.Println(len(why.Holders), "passed, and counts for", why.Holders[0].Left.Round(time.Minute), err)
	// Output: 1 passed, and counts for 1m0s <nil>
}

func ExampleStatus_ByKind() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(4)
	_, _ = gpus.Acquire(ctx, "gpu")
	_, _ = locker.Lock(ctx, "gpu") // a lock of the same name is independent

	all, err := locker.Status(ctx, distlock.KindAny, "gpu")
	for _, one := range all.ByKind() {
		fmt.Println(one.Kind, one.Holders[0].Mode, err)
	}
	// Output:
	// lock exclusive <nil>
	// sem counted <nil>
}

func ExampleStatus_Free() {
	ctx, locker := context.Background(), newLocker()
	status, err := locker.Status(ctx, distlock.KindLock, "report")
	fmt.Println(status.Free(), err)
	// Output: true <nil>
}

func ExampleKind_Noun() {
	fmt.Println(distlock.KindRateLimit.Noun())
	// Output: rate limit
}

func ExampleLocker_Break() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	// A claim that was granted after this look is not broken.
	status, _ := locker.Status(ctx, distlock.KindLock, "deploy")
	broken, err := locker.Break(ctx, distlock.KindLock, "deploy", status.Holders[0].Fence, "the runner is gone")
	fmt.Println(len(broken), err)

	fmt.Println(lease.Extend(ctx, time.Minute)) // the next renewal notices it too
	// Output:
	// 1 <nil>
	// distlock: lease of "deploy" lost: broken: "the runner is gone"
}
