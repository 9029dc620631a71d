package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLease_Context() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42", distlock.MaxHold(10*time.Millisecond))
	work := lease.Context(ctx) // for all work under the lock
	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), distlock.ErrLost), context.Cause(work))
	// Output: true distlock: lease of "invoice/42" lost: longest hold reached
}

func ExampleLease_Fence() {
	ctx, locker := context.Background(), newLocker()
	seen := uint64(0) // in the database, next to the protected data
	write := func(fence uint64) bool {
		if fence < seen {
			return false // from a holder that lost the lock to the next one
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
	fmt.Println(lease.Err(), lease.Unlock(ctx)) // a second Unlock does nothing
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
			break // let other processes in between two steps
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

func ExampleLease_Kind() {
	ctx, locker := context.Background(), newLocker()
	connections, _ := locker.Semaphore(4)

	_ = connections.Do(ctx, "database", func(ctx context.Context) error {
		fmt.Println(distlock.FromContext(ctx).Kind() == distlock.KindSemaphore)
		return nil
	})
	// Output: true
}

func ExampleLease_Mode() {
	ctx, locker := context.Background(), newLocker()

	writer, _ := locker.Lock(ctx, "prices")
	reader, _ := locker.RLock(ctx, "stock")
	fmt.Println(writer.Mode(), reader.Mode())
	// Output: exclusive shared
}

// Ensure before a step of ten seconds that two processes must not do at the same time.
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

func ExampleLease_Detach() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "deploy")
	handle, err := lease.Detach(ctx)
	text := handle.Secret() // a secret: send it to the process that continues
	fmt.Println(err, lease.Err(), strings.HasPrefix(text, "dlh1."))
	// Output: <nil> distlock: lease released true
}

func ExampleHandle_Secret() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Detach(ctx)
	again, err := distlock.ParseHandle(handle.Secret())
	fmt.Println(again.Secret() == handle.Secret(), err)
	fmt.Println(strings.Contains(fmt.Sprint(handle), handle.Secret())) // only Secret returns it
	// Output:
	// true <nil>
	// false
}

func ExampleHandle_Name() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Detach(ctx)
	fmt.Println(handle.Name())
	// Output: deploy
}

func ExampleHandle_Fence() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Detach(ctx)
	fmt.Println(handle.Fence() == lease.Fence())
	// Output: true
}

func ExampleHandle_Kind() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Detach(ctx)
	fmt.Println(handle.Kind(), handle.Name())
	// Output: lock deploy
}

func ExampleHandle_TTL() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy", distlock.TTL(10*time.Minute))

	handle, _ := lease.Detach(ctx)
	fmt.Println(handle.TTL()) // the time in which the other process must attach
	// Output: 10m0s
}

func ExampleLocker_Attach() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")
	given, _ := lease.Detach(ctx)

	handle, err := distlock.ParseHandle(given.Secret())
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err = locker.Attach(ctx, handle)
	fmt.Println(lease.Name(), err, lease.Unlock(ctx))
	// Output: deploy <nil> <nil>
}

func ExampleParseHandle() {
	_, err := distlock.ParseHandle("dlh1.c2VjcmV0")
	fmt.Println(errors.Is(err, distlock.ErrInvalid), err)
	// Output: true distlock: invalid handle: it is cut or changed
}

func ExampleLease_Proof() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "invoice/42")
	header := lease.Proof() // Distlock-Fence: 1789000000000000;exclusive;invoice%2F42
	proof, err := distlock.ParseProof(header)
	fmt.Println(proof.Name, proof.Mode, proof.Fence == lease.Fence(), err)
	// Output: invoice/42 exclusive true <nil>
}

func ExampleParseProof() {
	proof, err := distlock.ParseProof("1789000000000000;exclusive;invoice%2F42")
	fmt.Println(proof.Name, proof.Mode, proof.Fence, err)
	// Output: invoice/42 exclusive 1789000000000000 <nil>
}

func ExampleParseFence() {
	fence, err := distlock.ParseFence("1789000000000000")
	fmt.Println(fence, err)
	_, err = distlock.ParseFence("01")
	fmt.Println(err)
	// Output:
	// 1789000000000000 <nil>
	// distlock: invalid fence: fence "01" is not a number from 1 to 2^53-1
}
