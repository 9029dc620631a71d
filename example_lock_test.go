package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// newLocker returns a Locker for the examples. A program would use a store that its processes
// share.
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
	fmt.Println(locker.Ping(context.Background()))
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

func ExampleLocker_Ping() {
	ctx, locker := context.Background(), newLocker()

	if err := locker.Ping(ctx); err != nil {
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

func ExampleLease_Downgrade() {
	ctx, locker := context.Background(), newLocker()

	writer, err := locker.Lock(ctx, "catalogue")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written under", writer.Mode())
	reader, err := writer.Downgrade(ctx) // no other writer gets the lock in between
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock(ctx)
	fmt.Println("read back under", reader.Mode())
	// Output:
	// written under exclusive
	// read back under shared
}

func ExampleLocker_RLock_upgrade() {
	ctx, locker := context.Background(), newLocker()

	reader, err := locker.RLock(ctx, "catalogue")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock(ctx)
	_, err = locker.Lock(reader.Context(ctx), "catalogue") // the call would wait for itself
	fmt.Println(errors.Is(err, distlock.ErrUpgrade), err)
	// Output: true distlock: a reader cannot become the writer: "catalogue" is held by the caller
}

func ExampleLocker_Do() {
	ctx, locker := context.Background(), newLocker()

	err := locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		fmt.Println("alone with the invoice") // ctx is cancelled if the lock is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// alone with the invoice
	// <nil>
}

func ExampleLocker_TryDo() {
	ctx, locker := context.Background(), newLocker()

	ran, err := locker.TryDo(ctx, "nightly report", func(ctx context.Context) error {
		fmt.Println("writing the report")
		return nil
	})
	fmt.Println(ran, err) // false and no error: another process runs it
	// Output:
	// writing the report
	// true <nil>
}

func ExampleDoValue() {
	ctx, locker := context.Background(), newLocker()

	number, err := distlock.DoValue(ctx, locker, "invoice numbers", func(ctx context.Context) (int, error) {
		return 43, nil
	})
	fmt.Println(number, err)
	// Output: 43 <nil>
}

func ExampleFromContext() {
	ctx, locker := context.Background(), newLocker()

	save := func(ctx context.Context) {
		if lease := distlock.FromContext(ctx); lease != nil {
			fmt.Println("saving under", lease.Name(), "with a fence:", lease.Fence() > 0)
		}
	}
	_ = locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		save(ctx)
		return nil
	})
	// Output: saving under invoice/42 with a fence: true
}

func ExampleLocker_LockAll() {
	ctx, locker := context.Background(), newLocker()

	leases, err := locker.LockAll(ctx, []string{"account/7", "account/3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Unlock(ctx)
	work := leases.Context(ctx) // is cancelled as soon as one of them is lost
	for lease := range leases.All() {
		fmt.Println(lease.Name(), lease.Fence() > 0, work.Err())
	}
	// Output:
	// account/3 true <nil>
	// account/7 true <nil>
}

func ExampleLocker_TryLockAll() {
	ctx, locker := context.Background(), newLocker()
	other, _ := locker.Lock(ctx, "account/7")

	_, err := locker.TryLockAll(ctx, []string{"account/3", "account/7"})
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	lease, err := locker.TryLock(ctx, "account/3") // TryLockAll released it
	fmt.Println(err, lease.Unlock(ctx), other.Unlock(ctx))
	// Output:
	// true
	// <nil> <nil> <nil>
}

func ExampleLeases_Lease() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Lease("b").Name(), leases.Lease("c") == nil)
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// b true
	// <nil>
}

func ExampleLeases_All() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"b", "a"})

	for lease := range leases.All() {
		fmt.Println(lease.Name())
	}
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// a
	// b
	// <nil>
}

func ExampleLeases_Context() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	work := leases.Context(ctx)
	fmt.Println(work.Err(), leases.Unlock(ctx))
	fmt.Println(context.Cause(work))
	// Output:
	// <nil> <nil>
	// distlock: lease released
}

func ExampleLeases_Done() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Lease("a").Unlock(ctx)) // the end of one lease is enough
	<-leases.Done()
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// <nil>
	// <nil>
}

func ExampleLeases_Err() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Err(), leases.Unlock(ctx))
	fmt.Println(leases.Err())
	// Output:
	// <nil> <nil>
	// distlock: lease released
}

func ExampleLeases_Valid() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"}, distlock.TTL(time.Minute))

	fmt.Println(leases.Valid(time.Second), leases.Valid(time.Hour))
	fmt.Println(leases.Unlock(ctx))
	// Output:
	// true false
	// <nil>
}

func ExampleLeases_Unlock() {
	ctx, locker := context.Background(), newLocker()
	leases, _ := locker.LockAll(ctx, []string{"a", "b"})

	fmt.Println(leases.Unlock(ctx))
	// Output: <nil>
}

func ExampleLeases_Ensure() {
	ctx, locker := context.Background(), newLocker()
	leases, err := locker.LockAll(ctx, []string{"a", "b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Unlock(ctx)

	fmt.Println(leases.Ensure(ctx, 10*time.Second))
	// Output: <nil>
}
