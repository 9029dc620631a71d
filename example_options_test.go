package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/distlock/distlock"
)

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
