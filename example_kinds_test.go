package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLocker_Semaphore() {
	ctx, locker := context.Background(), newLocker()

	gpus, err := locker.Semaphore(4)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = gpus.Do(ctx, "gpu", func(ctx context.Context) error {
		fmt.Println("one of", gpus.Size())
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of 4
	// <nil>
}

func ExampleSemaphore_Acquire() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(4)

	lease, err := gpus.Acquire(ctx, "gpu", distlock.Weight(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock(ctx)
	_, err = gpus.TryAcquire(ctx, "gpu", distlock.Weight(2))
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	// Output: true
}

func ExampleSemaphore_TryAcquire() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(1)

	lease, err := gpus.TryAcquire(ctx, "gpu")
	fmt.Println(lease.Mode(), err)
	_, err = gpus.TryAcquire(ctx, "gpu")
	fmt.Println(errors.Is(err, distlock.ErrHeld), lease.Unlock(ctx))
	// Output:
	// counted <nil>
	// true <nil>
}

func ExampleSemaphore_Do() {
	locker := newLocker()
	uploads, _ := locker.Semaphore(2)

	err := uploads.Do(context.Background(), "uploads", func(ctx context.Context) error {
		fmt.Println("holding", distlock.FromContext(ctx).Name())
		return nil
	}, distlock.Weight(2))
	fmt.Println(err)
	// Output:
	// holding uploads
	// <nil>
}

func ExampleSemaphore_Resize() {
	ctx, locker := context.Background(), newLocker()
	gpus, _ := locker.Semaphore(1)
	first, _ := gpus.Acquire(ctx, "gpu")

	fmt.Println(gpus.Resize(2))
	second, err := gpus.TryAcquire(ctx, "gpu")
	fmt.Println(err, first.Unlock(ctx), second.Unlock(ctx))
	// Output:
	// <nil>
	// <nil> <nil> <nil>
}

func ExampleSemaphore_Size() {
	gpus, _ := newLocker().Semaphore(4)
	fmt.Println(gpus.Size())
	// Output: 4
}

func ExampleWeight() {
	ctx, locker := context.Background(), newLocker()
	memory, _ := locker.Semaphore(64) // gigabytes

	lease, err := memory.TryAcquire(ctx, "worker-7", distlock.Weight(48))
	fmt.Println(lease.Name(), err)
	_, err = memory.Acquire(ctx, "worker-7", distlock.Weight(65))
	fmt.Println(err)
	// Output:
	// worker-7 <nil>
	// distlock: invalid weight: 65 of "worker-7" is over the limit of 64
}

func ExampleLocker_Limiter() {
	ctx, locker := context.Background(), newLocker()

	mails, err := locker.Limiter(2, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		err := mails.Allow(ctx, "mail/ann")
		var limited *distlock.LimitError
		if errors.As(err, &limited) {
			fmt.Println("again in a minute:", limited.Retry.Round(time.Minute))
			continue
		}
		fmt.Println("sent", err)
	}
	// Output:
	// sent <nil>
	// sent <nil>
	// again in a minute: 1m0s
}

func ExampleLimiter_Allow() {
	ctx, locker := context.Background(), newLocker()
	bytes, _ := locker.Limiter(1_000_000, time.Minute)

	fmt.Println(bytes.Allow(ctx, "upload", distlock.Weight(900_000)))
	err := bytes.Allow(ctx, "upload", distlock.Weight(900_000))
	fmt.Println(errors.Is(err, distlock.ErrLimited))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_Wait() {
	ctx, locker := context.Background(), newLocker()
	calls, _ := locker.Limiter(1, 100*time.Millisecond)

	began := time.Now()
	for range 3 {
		if err := calls.Wait(ctx, "partner-api"); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 200*time.Millisecond)
	// Output: true
}

// Processes that make one call each, such as shell commands, acquire one pass and no share of a
// hundred.
func ExampleExact() {
	ctx, locker := context.Background(), newLocker()
	calls, _ := locker.Limiter(100_000, time.Hour)

	fmt.Println(calls.Allow(ctx, "partner-api", distlock.Exact()))
	why, err := locker.Status(ctx, distlock.KindRateLimit, "partner-api")
	fmt.Println(why.Holders[0].Weight, err)
	// Output:
	// <nil>
	// 1 <nil>
}

func ExampleLocker_Election() {
	ctx, locker := context.Background(), newLocker()

	election, err := locker.Election(distlock.Holder("node-1"))
	if err != nil {
		fmt.Println(err) // the store has no fencing tokens or no values
		return
	}
	leader, err := election.Leader(ctx, "scheduler")
	fmt.Println(leader.Fence, err)
	// Output: 0 <nil>
}

func ExampleElection_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	election, _ := newLocker().Election(distlock.Holder("node-1"))

	err := election.Run(ctx, "scheduler", func(ctx context.Context, t *distlock.Term) error {
		fmt.Println("elected; the term is a fence:", t.Fence() == distlock.FromContext(ctx).Fence())
		cancel() // the program shuts down

		<-ctx.Done() // lead until then, or until the leadership is lost
		fmt.Println("releasing leadership")
		return nil
	})
	fmt.Println(err)
	// Output:
	// elected; the term is a fence: true
	// releasing leadership
	// context canceled
}

func ExampleElection_Leader() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election(distlock.Holder("node-1"))

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, "scheduler", func(ctx context.Context, _ *distlock.Term) error {
		leader, err := election.Leader(ctx, "scheduler")
		fmt.Println(leader.Holder, "leads", err)
		return errEnough
	})
	// Output: node-1 leads <nil>
}

func ExampleElection_Observe() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election(distlock.Holder("node-1"))

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, "scheduler", func(ctx context.Context, _ *distlock.Term) error {
		for leader, err := range election.Observe(ctx, "scheduler") {
			fmt.Println(leader.Holder, err) // and again after each change
			return errEnough
		}
		return nil
	})
	// Output: node-1 <nil>
}

func ExampleTerm_Publish() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election()

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, "scheduler", func(ctx context.Context, t *distlock.Term) error {
		if err := t.Publish(ctx, []byte("10.0.0.1:8080")); err != nil {
			return err
		}
		leader, _ := election.Leader(ctx, "scheduler")
		fmt.Printf("%s\n", leader.Value)
		return errEnough
	})
	// Output: 10.0.0.1:8080
}

func ExampleTerm_Fence() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election()

	errEnough := errors.New("that was enough")
	var last uint64
	_ = election.Run(ctx, "scheduler", func(_ context.Context, t *distlock.Term) error {
		if last > 0 {
			fmt.Println("a later term is higher:", t.Fence() > last)
			return errEnough
		}
		last = t.Fence()
		return nil // resigns
	})
	// Output: a later term is higher: true
}

func ExampleTerm_Proof() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election()

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, "scheduler", func(_ context.Context, t *distlock.Term) error {
		header := t.Proof() // Distlock-Fence: 1789000000000000;exclusive;~lead%2Fscheduler
		proof, err := distlock.ParseProof(header)
		fmt.Println(proof.Kind.Noun(), proof.Name, proof.Fence == t.Fence(), err)
		return errEnough
	})
	// Output: election scheduler true <nil>
}

func ExamplePreferred() {
	// A node with more memory should lead while it runs.
	ctx, locker := context.Background(), newLocker()
	election, err := locker.Election(distlock.Preferred(), distlock.Holder("big node"))
	if err != nil {
		fmt.Println(err) // the store has no queue
		return
	}
	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, "scheduler", func(ctx context.Context, _ *distlock.Term) error {
		leader, _ := election.Leader(ctx, "scheduler")
		fmt.Println(leader.Holder, "leads")
		return errEnough
	})
	// Output: big node leads
}

func ExampleNewOnce() {
	ctx, locker := context.Background(), newLocker()
	errNoStock := errors.New("out of stock")

	orders, err := distlock.NewOnce(locker, 24*time.Hour, &distlock.OnceOptions[string]{
		Failures: func(err error) bool { return errors.Is(err, errNoStock) }, // others: the next call runs again
	})
	if err != nil {
		fmt.Println(err) // the store cannot keep records
		return
	}
	order := func(context.Context) (string, error) { return "", errNoStock }
	_, err = orders.Do(ctx, "order/1", order)
	fmt.Println(err)
	_, err = orders.Do(ctx, "order/1", order)
	fmt.Println(err)
	// Output:
	// out of stock
	// distlock: "order/1" failed before: out of stock
}

func ExampleOnce_Do() {
	ctx, locker := context.Background(), newLocker()
	payments, _ := distlock.NewOnce[int](locker, 24*time.Hour, nil)

	pay := func(context.Context) (int, error) {
		fmt.Println("paying")
		return 4711, nil
	}
	for range 3 {
		receipt, err := payments.Do(ctx, "invoice/42", pay)
		fmt.Println(receipt, err)
	}
	// Output:
	// paying
	// 4711 <nil>
	// 4711 <nil>
	// 4711 <nil>
}

func ExampleOnce_Result() {
	ctx, locker := context.Background(), newLocker()
	payments, _ := distlock.NewOnce[int](locker, 24*time.Hour, nil)

	_, found, err := payments.Result(ctx, "invoice/42")
	fmt.Println(found, err)
	_, _ = payments.Do(ctx, "invoice/42", func(context.Context) (int, error) { return 4711, nil })
	receipt, found, err := payments.Result(ctx, "invoice/42")
	fmt.Println(receipt, found, err)
	// Output:
	// false <nil>
	// 4711 true <nil>
}

func ExampleLocker_Cron() {
	locker := newLocker()
	_, err := locker.Cron(&distlock.CronOptions{Keep: 10 * time.Minute}) // longer than the difference of the clocks
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCron_Run() {
	ctx, locker := context.Background(), newLocker()
	jobs, err := locker.Cron(nil)
	if err != nil {
		fmt.Println(err) // the store cannot keep records
		return
	}
	report := func(ctx context.Context) error {
		fmt.Println("writing the report")
		return nil
	}
	fire := time.Date(2030, 1, 1, 3, 0, 0, 0, time.UTC) // the scheduled time
	for range 3 {                                       // three schedulers do the same
		ran, err := jobs.Run(ctx, "nightly report", fire, report)
		fmt.Println(ran, err)
	}
	// Output:
	// writing the report
	// true <nil>
	// false <nil>
	// false <nil>
}
