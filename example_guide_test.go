package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

// docs/guide.md quotes the bodies of the functions in this file, and the examples run them.

// A voucher stands for a row of a database that has a column for the fence.
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
		return coupon.redeem(distlock.FromContext(ctx).Fence()) // and write, one at a time; a late write is rejected
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
	// Three times the longest run. Nothing is renewed: the lock of a run that hangs ends after that.
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
