package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
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

func ExampleTTL() {
	ctx, locker := context.Background(), newLocker(distlock.TTL(10*time.Second)) // default of all its locks

	_, _ = locker.Lock(ctx, "import", distlock.TTL(time.Minute)) // only for this lock
	why, _ := locker.Status(ctx, distlock.KindLock, "import")
	fmt.Println(why.Holders[0].Left.Round(time.Minute))
	// Output: 1m0s
}

func ExampleMaxWait() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "report")

	_, err := locker.Lock(ctx, "report", distlock.MaxWait(10*time.Millisecond))
	fmt.Println(errors.Is(err, distlock.ErrHeld), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// A retry count of 3 with a retry delay of 20 ms.
func ExampleMaxAttempts() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "report")

	_, err := locker.Lock(ctx, "report", distlock.MaxAttempts(3), distlock.Backoff(20*time.Millisecond, 20*time.Millisecond))
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	// Output: true
}

func ExampleBackoff() {
	ctx, locker := context.Background(), newLocker()

	lease, err := locker.Lock(ctx, "report", distlock.Backoff(5*time.Millisecond, 200*time.Millisecond))
	fmt.Println(lease.Name(), err)
	// Output: report <nil>
}

func ExampleMaxHold() {
	ctx, locker := context.Background(), newLocker()

	err := locker.Do(ctx, "report", func(ctx context.Context) error {
		<-ctx.Done() // work that hangs
		return nil
	}, distlock.MaxHold(10*time.Millisecond))
	fmt.Println(errors.Is(err, distlock.ErrMaxHold), errors.Is(err, distlock.ErrLost))
	// Output: true true
}

func ExampleMinHold() {
	ctx, locker := context.Background(), newLocker()
	job := func(context.Context) error { fmt.Println("once an hour"); return nil }

	for range 3 { // on three machines, whose clocks differ by seconds
		_, _ = locker.TryDo(ctx, "hourly", job, distlock.MinHold(time.Minute))
	}
	// Output: once an hour
}

func ExampleLockDelay() {
	ctx, locker := context.Background(), newLocker()

	_, _ = locker.Lock(ctx, "disk", distlock.TTL(time.Minute), distlock.LockDelay(2*time.Minute))
	why, _ := locker.Status(ctx, distlock.KindLock, "disk")
	fmt.Println(why.Holders[0].Left.Round(time.Minute)) // how long others wait if the holder dies now
	// Output: 3m0s
}

func ExampleNoRenewal() {
	ctx, locker := context.Background(), newLocker()

	lease, _ := locker.Lock(ctx, "report", distlock.NoRenewal(), distlock.TTL(time.Second))
	<-lease.Done() // the lease is not renewed
	fmt.Println(lease.Err())
	// Output: distlock: lease of "report" lost: not renewed in time
}

func ExampleRequireFence() {
	ctx, locker := context.Background(), newLocker(distlock.RequireFence())

	lease, _ := locker.Lock(ctx, "invoice/42")
	fmt.Println(lease.Fence() > 0)
	// Output: true
}

func ExampleHolder() {
	ctx, locker := context.Background(), newLocker()
	_, _ = locker.Lock(ctx, "report", distlock.Holder("cron@db7"))

	_, err := locker.TryLock(ctx, "report")
	var held *distlock.HeldError
	fmt.Println(errors.As(err, &held), held.Holder)
	// Output: true cron@db7
}

func ExampleValue() {
	ctx, locker := context.Background(), newLocker()

	_, _ = locker.Lock(ctx, "primary", distlock.Value([]byte("10.0.0.7:5432")))
	why, _ := locker.Status(ctx, distlock.KindLock, "primary")
	fmt.Printf("%s\n", why.Holders[0].Value)
	// Output: 10.0.0.7:5432
}

func ExampleMeta() {
	ctx, locker := context.Background(), newLocker()

	_, _ = locker.Lock(ctx, "deploy", distlock.Meta("version", "1.4.2"), distlock.Meta("by", "ana"))
	why, _ := locker.Status(ctx, distlock.KindLock, "deploy")
	fmt.Println(why.Holders[0].Meta)
	// Output: map[by:ana version:1.4.2]
}

func ExampleNote() {
	ctx, locker := context.Background(), newLocker()

	_, _ = locker.Lock(ctx, "deploy", distlock.Note("rolling back 1.4.2"))
	why, _ := locker.Status(ctx, distlock.KindLock, "deploy")
	fmt.Println(why.Holders[0].Note)
	// Output: rolling back 1.4.2
}

func ExampleObserve() {
	ctx := context.Background()
	locker := newLocker(distlock.Observe(func(_ context.Context, e distlock.Event) {
		fmt.Println(e.Type, e.Name)
	}))

	_ = locker.Do(ctx, "report", func(context.Context) error { return nil })
	// Output:
	// attempted report
	// granted report
	// released report
}

func ExampleLog() {
	ctx := context.Background()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "fence" || a.Key == "took" { // they differ from run to run
				return slog.Attr{}
			}
			return a
		},
	}))
	locker := newLocker(distlock.Observe(distlock.Log(logger)))

	lease, _ := locker.Lock(ctx, "report", distlock.MaxHold(10*time.Millisecond))
	<-lease.Done()
	_ = locker.Close(ctx)
	// Output: level=WARN msg="distlock: lost" name=report kind=lock mode=exclusive store=mem error="distlock: lease of \"report\" lost: longest hold reached"
}

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
