package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLease_Handle() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "deploy")
	handle, err := lease.Handle(ctx)
	text := handle.Text() // a secret: it goes to the process that goes on
	fmt.Println(err, lease.Err(), strings.HasPrefix(text, "dlh1."))
	// Output: <nil> distlock: lease released true
}

func ExampleHandle_Text() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Handle(ctx)
	again, err := distlock.ParseHandle(handle.Text())
	fmt.Println(again.Text() == handle.Text(), err)
	fmt.Println(strings.Contains(fmt.Sprint(handle), handle.Text())) // only Text tells the secret
	// Output:
	// true <nil>
	// false
}

func ExampleHandle_Name() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Handle(ctx)
	fmt.Println(handle.Name())
	// Output: deploy
}

func ExampleHandle_Fence() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")

	handle, _ := lease.Handle(ctx)
	fmt.Println(handle.Fence() == lease.Fence())
	// Output: true
}

func ExampleHandle_TTL() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy", distlock.TTL(10*time.Minute))

	handle, _ := lease.Handle(ctx)
	fmt.Println(handle.TTL()) // what is left for the other process to attach
	// Output: 10m0s
}

func ExampleLocker_Attach() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")
	given, _ := lease.Handle(ctx)

	handle, err := distlock.ParseHandle(given.Text())
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
	fmt.Println(errors.Is(err, distlock.ErrInvalidHandle), err)
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
	// distlock: invalid fence: "01"
}
