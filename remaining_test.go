package distlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

func TestLease_Remaining(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		lease := must(t)(l.Lock(t.Context(), "x", distlock.TTL(10*time.Second), distlock.NoRenewal()))
		if got := lease.Remaining(); got != trustOf(10*time.Second) {
			t.Errorf("of a new lease: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := lease.Remaining(); got != trustOf(10*time.Second)-2*time.Second {
			t.Errorf("after 2 s: %v", got)
		}
		time.Sleep(10 * time.Second)
		if got := lease.Remaining(); got != 0 {
			t.Errorf("after its TTL: %v", got)
		}
		lease = must(t)(l.Lock(t.Context(), "x"))
		free(t, lease)
		if got := lease.Remaining(); got != 0 {
			t.Errorf("after Unlock: %v", got)
		}
		var none *distlock.Lease
		if got := none.Remaining(); got != 0 {
			t.Errorf("of the nil lease: %v", got)
		}
	})
}

func ExampleLease_Remaining() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	lease, _ := locker.Lock(ctx, "report")
	fmt.Println(lease.Remaining() > 20*time.Second) // the TTL of 30 s less a margin
	_ = lease.Unlock(ctx)
	fmt.Println(lease.Remaining())
	// Output:
	// true
	// 0s
}

func ExampleOnClose() {
	ctx := context.Background()
	store := mem.New()
	locker, _ := distlock.New(store, distlock.OnClose(func() { fmt.Println("the store is closed") }))
	_ = locker.Close(ctx)
	// Output: the store is closed
}

// TestLocker_Close_second shows that a second Close waits for the first, and no longer than its
// context.
func TestLocker_Close_second(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		closing := make(chan struct{})
		l := g.locker(t, distlock.OnClose(func() { <-closing }))
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- l.Close(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wants(t, l.Close(ctx), context.DeadlineExceeded)
		go func() { second <- l.Close(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-second:
			t.Errorf("the second Close did not wait: %v", err)
		default:
		}
		close(closing)
		if a, b := <-first, <-second; a != nil || b != nil {
			t.Errorf("Close: %v, %v", a, b)
		}
	})
}
