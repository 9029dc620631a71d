package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// newLocker returns a Locker for the examples. In a program the store would be one that
// the processes share.
func newLocker(opts ...distlock.Option) *distlock.Locker {
	locker, err := distlock.New(mem.New(), append([]distlock.Option{distlock.Holder("host:1")}, opts...)...)
	if err != nil {
		panic(err)
	}
	return locker
}

func ExampleNew() {
	locker, err := distlock.New(mem.New(), distlock.TTL(10*time.Second), distlock.RequireFence())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close(context.Background())
	fmt.Println(locker.Check(context.Background()))
	// Output: <nil>
}

func ExampleLocker_Lock() {
	ctx, locker := context.Background(), newLocker()

	lease, err := locker.Lock(ctx, "invoice/42", distlock.MaxWait(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock(ctx)
	fmt.Println("working on", lease.Name())
	// Output: working on invoice/42
}

func ExampleLocker_TryLock() {
	ctx, locker := context.Background(), newLocker()

	first, _ := locker.TryLock(ctx, "invoice/42")
	_, err := locker.TryLock(ctx, "invoice/42")
	fmt.Println(errors.Is(err, distlock.ErrHeld), first.Unlock(ctx))
	// Output: true <nil>
}

func ExampleLocker_RLock() {
	ctx, locker := context.Background(), newLocker()

	reader, _ := locker.RLock(ctx, "prices")
	another, _ := locker.RLock(ctx, "prices")
	_, err := locker.TryLock(ctx, "prices") // a writer
	fmt.Println(reader.Mode(), another.Mode(), errors.Is(err, distlock.ErrHeld))
	// Output: shared shared true
}

func ExampleLocker_TryRLock() {
	ctx, locker := context.Background(), newLocker()

	writer, _ := locker.Lock(ctx, "prices")
	_, err := locker.TryRLock(ctx, "prices")
	fmt.Println(errors.Is(err, distlock.ErrHeld))

	_ = writer.Unlock(ctx)
	_, err = locker.TryRLock(ctx, "prices")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleLocker_Check() {
	ctx, locker := context.Background(), newLocker()

	if err := locker.Check(ctx); err != nil {
		fmt.Println("not ready:", err)
		return
	}
	fmt.Println("ready")
	// Output: ready
}

func ExampleLocker_ReleaseAll() {
	ctx, locker := context.Background(), newLocker()

	a, _ := locker.Lock(ctx, "a")
	b, _ := locker.Lock(ctx, "b")
	fmt.Println(locker.ReleaseAll(ctx))
	fmt.Println(a.Err(), b.Err())
	// Output:
	// <nil>
	// distlock: lease released distlock: lease released
}

func ExampleLocker_Close() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42")
	fmt.Println(locker.Close(ctx), lease.Err())

	_, err := locker.Lock(ctx, "invoice/42")
	fmt.Println(err)
	// Output:
	// <nil> distlock: lease released
	// distlock: locker closed
}
