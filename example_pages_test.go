package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// README.md and docs/guide.md quote the bodies of the functions in this file, and the examples run
// them.

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

// A database stands for a database with one row that has a fencing token.
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

// Do one thing at a time, in six lines.
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

// A voucher stands for a row of a database that has a column for the fencing token.
type voucher struct {
	used  bool
	fence uint64
}

// redeem is "update voucher set used = true, fence = $1 where id = $2 and fence <= $1".
func (v *voucher) redeem(fence uint64) error {
	if fence < v.fence {
		return errors.New("somebody else has held the lock since")
	}
	v.used, v.fence = true, fence
	return nil
}

var errUsed = errors.New("used already")

func quoteCoupon(ctx context.Context, locker *distlock.Locker, coupon *voucher) error {
	return locker.Do(ctx, "coupon/SUMMER", func(ctx context.Context) error {
		if coupon.used { // check
			return errUsed
		}
		return coupon.redeem(distlock.FromContext(ctx).Fence()) // write, one at a time; a late write is rejected
	}, distlock.MaxWait(5*time.Second))
}

func quoteNames(ctx context.Context, locker *distlock.Locker, user string, id int) error {
	resource := fmt.Sprintf("invoice/%d", id) // a resource: one name for one row, in all programs
	job := "job/nightly-report"               // a job: skipped while it runs
	singleton := "singleton/mail-poller"      // a singleton: held for as long as the process lives
	mine := "cart/" + user                    // with user input: up to 255 bytes, compared byte by byte
	for _, name := range []string{resource, job, singleton, mine} {
		if _, err := locker.TryDo(ctx, name, report); err != nil {
			return err
		}
	}
	return nil
}

func quoteTTL(ctx context.Context, locker *distlock.Locker) error {
	lease, err := locker.Lock(ctx, "export",
		distlock.TTL(15*time.Second), // how long others wait after this process has died
		distlock.MaxHold(time.Hour),  // the longest hold of a process that lives but hangs
	)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return report(lease.Context(ctx))
}

func quoteFixed(ctx context.Context, locker *distlock.Locker) error {
	// Three times the longest run. Nothing is renewed: then the lock of a run that hangs ends.
	return locker.Do(ctx, "thumbnail/7", report, distlock.TTL(30*time.Second), distlock.NoRenewal())
}

func quoteRefusal(ctx context.Context, locker *distlock.Locker) (status string, err error) {
	err = locker.Do(ctx, "deploy", report, distlock.MaxWait(time.Second))
	switch {
	case err == nil:
		return "it ran, and held the lock to the end", nil
	case !errors.Is(err, distlock.ErrNotAcquired) && errors.Is(err, distlock.ErrLost):
		return "it ran, and the lock did not last: another may have run at the same time", err
	case !errors.Is(err, distlock.ErrNotAcquired):
		return "it ran, and failed", err
	case errors.Is(err, distlock.ErrHeld):
		return "it did not run: somebody else holds the lock", nil
	case errors.Is(err, distlock.ErrUnknown):
		return "it did not run: the store did not answer, and the name may be taken for a TTL", err
	case errors.Is(err, distlock.ErrUnavailable):
		return "it did not run: the store cannot be used", err
	}
	return "it did not run: the context ended, the Locker is closed, or the call is wrong", err
}

// Check and write under a lock, and reject late writes.
func Example_coupon() {
	ctx, locker, coupon := context.Background(), newLocker(), new(voucher)
	fmt.Println(quoteCoupon(ctx, locker, coupon))
	fmt.Println(quoteCoupon(ctx, locker, coupon))
	// Output:
	// <nil>
	// used already
}

// Names for resources, jobs and singletons.
func Example_names() {
	fmt.Println(quoteNames(context.Background(), newLocker(), "ann", 42))
	// Output:
	// reported
	// reported
	// reported
	// reported
	// <nil>
}

// A TTL that is renewed, and one that is not.
func Example_ttl() {
	ctx, locker := context.Background(), newLocker()
	fmt.Println(quoteTTL(ctx, locker), quoteFixed(ctx, locker))
	// Output:
	// reported
	// reported
	// <nil> <nil>
}

// Find out whether the function ran, and why not.
func Example_refusal() {
	ctx, locker := context.Background(), newLocker()
	lease, _ := locker.Lock(ctx, "deploy")
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	fmt.Println(quoteRefusal(soon, locker))
	_ = lease.Unlock(ctx)
	fmt.Println(quoteRefusal(ctx, locker))
	// Output:
	// it did not run: somebody else holds the lock <nil>
	// reported
	// it ran, and held the lock to the end <nil>
}
