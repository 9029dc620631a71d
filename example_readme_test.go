package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// README.md quotes the bodies of the functions in this file, and the examples run them.

func charge(_ context.Context, fence uint64) error {
	fmt.Println("charged, fenced:", fence > 0)
	return nil
}

func report(context.Context) error {
	fmt.Println("reported")
	return nil
}

func quoteStart(ctx context.Context) error {
	locker, err := distlock.New(mem.New()) // or a store that your machines share
	if err != nil {
		return err
	}
	return locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		return charge(ctx, distlock.FromContext(ctx).Fence()) // ctx ends if the lock is lost
	})
}

func quoteSkip(ctx context.Context, locker *distlock.Locker) error {
	ran, err := locker.TryDo(ctx, "nightly-report", report)
	if err == nil && !ran {
		fmt.Println("another process is running it")
	}
	return err
}

func quoteWait(ctx context.Context, locker *distlock.Locker) error {
	lease, err := locker.Lock(ctx, "deploy", distlock.MaxWait(5*time.Second), distlock.Holder("ci-7"))
	if errors.Is(err, distlock.ErrHeld) {
		// not deployed: distlock: "deploy" is held by ci-3 for 2m13s, 30s left
		// context deadline exceeded
		return fmt.Errorf("not deployed: %w", err)
	} else if err != nil {
		return err // the store is unavailable, an argument is invalid, ...
	}
	return lease.Unlock(ctx) // ErrLost if the lease was lost before
}

func quoteStop(ctx context.Context, locker *distlock.Locker) error {
	lease, err := locker.Lock(ctx, "import", distlock.TTL(10*time.Second))
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx) // is sent even if ctx has ended
	work := lease.Context(ctx)
	for _, row := range rows(work) { // work is cancelled when the lease is lost
		if !lease.Valid(time.Second) { // too little time left for the next step
			return fmt.Errorf("stopped before %s: %w", row, distlock.ErrLost)
		}
		store(work, row)
	}
	return lease.Err()
}

func quoteFence(ctx context.Context, db database, lease *distlock.Lease) error {
	n, err := db.Exec(ctx, "update invoice set paid = true, fence = $1 where id = 42 and fence <= $1", lease.Fence())
	if err == nil && n == 0 {
		return errors.New("somebody else has held the lock since")
	}
	return err
}

func quoteRead(ctx context.Context, locker *distlock.Locker) error {
	lease, err := locker.RLock(ctx, "catalogue") // many of these, or one Lock
	if err != nil {
		return err
	}
	return errors.Join(report(ctx), lease.Unlock(ctx))
}

// database is as much of a database as the example needs: one row with a fence.
type database struct{ fence *uint64 }

func (d database) Exec(_ context.Context, _ string, fence uint64) (rows int, err error) {
	if fence < *d.fence {
		return 0, nil
	}
	*d.fence = fence
	return 1, nil
}

func rows(context.Context) []string { return []string{"a", "b"} }

func store(_ context.Context, row string) { fmt.Println("stored", row) }

// One thing at a time, in six lines.
func Example() {
	fmt.Println(quoteStart(context.Background()))
	// Output:
	// charged, fenced: true
	// <nil>
}

// Skip the work if another process is doing it.
func Example_skip() {
	ctx, locker := context.Background(), newLocker()
	other, _ := locker.Lock(ctx, "nightly-report")
	fmt.Println(quoteSkip(ctx, locker))
	_ = other.Unlock(ctx)
	fmt.Println(quoteSkip(ctx, locker))
	// Output:
	// another process is running it
	// <nil>
	// reported
	// <nil>
}

// Wait, with a limit.
func Example_wait() {
	ctx, locker := context.Background(), newLocker()
	fmt.Println(quoteWait(ctx, locker))
	_, _ = locker.Lock(ctx, "deploy", distlock.Holder("ci-3"))
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	err := quoteWait(soon, locker)
	fmt.Println(errors.Is(err, distlock.ErrHeld), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// true true
}

// Stop before another process can start.
func Example_stop() {
	ctx, locker := context.Background(), newLocker()
	fmt.Println(quoteStop(ctx, locker))
	// Output:
	// stored a
	// stored b
	// <nil>
}

// Reject stale writers.
func Example_fence() {
	ctx, locker, db := context.Background(), newLocker(), database{new(uint64)}
	late, _ := locker.Lock(ctx, "invoice/42")
	_ = late.Unlock(ctx)
	lease, _ := locker.Lock(ctx, "invoice/42")
	fmt.Println(quoteFence(ctx, db, lease))
	fmt.Println(quoteFence(ctx, db, late))
	// Output:
	// <nil>
	// somebody else has held the lock since
}

// Many readers, or one writer.
func Example_read() {
	ctx, locker := context.Background(), newLocker()
	other, _ := locker.RLock(ctx, "catalogue")
	fmt.Println(quoteRead(ctx, locker))
	_ = other.Unlock(ctx)
	// Output:
	// reported
	// <nil>
}
