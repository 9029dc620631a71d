package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/locktest"
)

// newStore returns a store for an example, and a Locker on it. In a test, newStore would be
// locktest.New(t).
func newStore() (*locktest.Store, *distlock.Locker) {
	store := locktest.New(nil)
	locker, err := distlock.New(store)
	if err != nil {
		panic(err)
	}
	return store, locker
}

// end closes both, the link last: Locker.Close releases all held leases through it.
func end(store *locktest.Store, locker *distlock.Locker) {
	_ = locker.Close(context.Background())
	store.Close()
}

func ExampleNew() {
	store := locktest.New(nil) // a test passes its t
	defer store.Close()        // and need not close the store
	locker, err := distlock.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := locker.Lock(context.Background(), "nightly", distlock.Holder("the job"))
	fmt.Println(store.Holders("nightly"), err)
	_ = lease.Unlock(context.Background())
	// Output: [the job] <nil>
}

func ExampleStore_Close() {
	store, locker := newStore()
	store.Close()
	err := locker.Ping(context.Background())
	fmt.Println(err != nil)
	// Output: true
}

func ExampleStore_Link() {
	store, a := newStore()
	defer end(store, a)
	link := store.Link() // another process
	b, _ := distlock.New(link)
	defer end(link, b)

	lease, _ := a.Lock(context.Background(), "nightly")
	_, err := b.TryLock(context.Background(), "nightly")
	fmt.Println(errors.Is(err, distlock.ErrHeld), lease.Unlock(context.Background()))
	// Output: true <nil>
}

func ExampleStore_Hold() {
	store, locker := newStore()
	defer end(store, locker)

	store.Hold("nightly", "the other machine")
	ran, err := locker.TryDo(context.Background(), "nightly", func(context.Context) error { return nil })
	fmt.Println(ran, err, store.Holders("nightly"))
	// Output: false <nil> [the other machine]
}

func ExampleStore_Steal() {
	store, locker := newStore()
	defer end(store, locker)

	lease, _ := locker.Lock(context.Background(), "nightly", distlock.TTL(time.Second))
	store.Steal("nightly")
	<-lease.Done() // with its next renewal
	fmt.Println(errors.Is(lease.Err(), distlock.ErrLost))
	// Output: true
}

func ExampleStore_Expire() {
	store, locker := newStore()
	defer end(store, locker)

	lease, _ := locker.Lock(context.Background(), "nightly", distlock.TTL(3*time.Second))
	store.Expire("nightly")
	fmt.Println(store.Holders("nightly"))
	<-lease.Done()
	fmt.Println(lease.Err())
	// Output:
	// []
	// distlock: lease of "nightly" lost: the store no longer holds it
}

func ExampleStore_Holders() {
	store, locker := newStore()
	defer end(store, locker)

	_, _ = locker.RLock(context.Background(), "prices", distlock.Holder("reader 1"))
	_, _ = locker.RLock(context.Background(), "prices", distlock.Holder("reader 2"))
	fmt.Println(store.Holders("prices"))
	// Output: [reader 1 reader 2]
}

func ExampleStore_Waiting() {
	store, locker := newStore()
	defer end(store, locker)
	rival := store.Hold("nightly", "the other machine")

	done := make(chan error, 1)
	go func() {
		done <- locker.Do(context.Background(), "nightly", func(context.Context) error { return nil })
	}()
	for store.Waiting("nightly") == 0 {
		time.Sleep(time.Millisecond) // in a bubble: synctest.Wait()
	}
	rival.Release()
	fmt.Println(<-done)
	// Output: <nil>
}

func ExampleRival_Fence() {
	store, locker := newStore()
	defer end(store, locker)

	lease, _ := locker.Lock(context.Background(), "nightly")
	rival := store.Steal("nightly") // lease does not know it yet
	fmt.Println(rival.Fence() > lease.Fence())
	// Output: true
}

func ExampleRival_Release() {
	store, locker := newStore()
	defer end(store, locker)

	rival := store.Hold("nightly", "the other machine")
	_, err := locker.TryLock(context.Background(), "nightly")
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	rival.Release()
	_, err = locker.TryLock(context.Background(), "nightly")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleStore_Calls() {
	store, locker := newStore()
	defer end(store, locker)

	lease, _ := locker.Lock(context.Background(), "nightly", distlock.NoRenewal())
	_ = lease.Unlock(context.Background())
	fmt.Println(store.Calls(locktest.Acquire), store.Calls(locktest.Renew), store.Calls())
	// Output: 1 0 2
}

func ExampleStore_Cut() {
	store, locker := newStore()
	defer end(store, locker)

	lease, _ := locker.Lock(context.Background(), "nightly", distlock.TTL(time.Second))
	store.Cut()
	<-lease.Done() // renewals hang, and trust ends without an answer
	fmt.Println(lease.Err())
	store.Heal()
	// Output: distlock: lease of "nightly" lost: not renewed in time
}

func ExampleStore_Heal() {
	store, locker := newStore()
	defer end(store, locker)

	store.Cut()
	store.Heal()
	fmt.Println(locker.Ping(context.Background()))
	// Output: <nil>
}

func ExampleStore_Freeze() {
	store, locker := newStore()
	defer end(store, locker)

	store.Freeze()
	done := make(chan error, 1)
	go func() { done <- locker.Ping(context.Background()) }() // it hangs
	select {
	case <-done:
	case <-time.After(20 * time.Millisecond):
		fmt.Println("no answer")
	}
	store.Thaw()
	fmt.Println(<-done)
	// Output:
	// no answer
	// <nil>
}

func ExampleStore_Thaw() {
	store, locker := newStore()
	defer end(store, locker)

	lease, _ := locker.Lock(context.Background(), "nightly")
	store.Freeze()
	time.Sleep(20 * time.Millisecond) // less than its TTL
	store.Thaw()                      // nothing was lost
	fmt.Println(lease.Err(), lease.Unlock(context.Background()))
	// Output: <nil> <nil>
}

func ExampleStore_Delay() {
	store, locker := newStore()
	defer end(store, locker)

	store.Delay(20 * time.Millisecond)
	began := time.Now()
	err := locker.Ping(context.Background()) // two calls
	fmt.Println(time.Since(began) >= 40*time.Millisecond, err)
	store.Delay(0)
	// Output: true <nil>
}

func ExampleStore_Down() {
	store, locker := newStore()
	defer end(store, locker)

	store.Down()
	_, err := locker.Lock(context.Background(), "nightly")
	fmt.Println(errors.Is(err, distlock.ErrUnavailable))
	store.Up()
	// Output: true
}

func ExampleStore_Up() {
	store, locker := newStore()
	defer end(store, locker)

	store.Down()
	store.Up()
	fmt.Println(locker.Ping(context.Background()))
	// Output: <nil>
}

func ExampleStore_LoseRequests() {
	store, locker := newStore()
	defer end(store, locker)

	store.LoseRequests(1, locktest.Acquire)
	_, err := locker.Lock(context.Background(), "nightly") // it tries again
	fmt.Println(store.Calls(locktest.Acquire), err)
	// Output: 2 <nil>
}

func ExampleStore_LoseReplies() {
	store, locker := newStore()
	defer end(store, locker)

	store.LoseReplies(1, locktest.Release)
	lease, _ := locker.Lock(context.Background(), "nightly")
	err := lease.Unlock(context.Background()) // it is repeated
	fmt.Println(err, store.Holders("nightly"), store.Calls(locktest.Release))
	// Output: <nil> [] 2
}

func ExampleStore_Unavailable() {
	store, locker := newStore()
	defer end(store, locker)

	store.Unavailable(1)
	err := locker.Ping(context.Background())
	fmt.Println(errors.Is(err, distlock.ErrUnavailable))
	fmt.Println(locker.Ping(context.Background()))
	// Output:
	// true
	// <nil>
}
