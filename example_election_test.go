package distlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock"
)

func ExampleLocker_Election() {
	ctx, locker := context.Background(), newLocker()

	election, err := locker.Election("scheduler", distlock.Holder("node-1"))
	if err != nil {
		fmt.Println(err) // the store gives no fences, or stores no values
		return
	}
	leader, err := election.Leader(ctx)
	fmt.Println(leader.Term, err)
	// Output: 0 <nil>
}

func ExampleElection_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	election, _ := newLocker().Election("scheduler", distlock.Holder("node-1"))

	err := election.Run(ctx, func(ctx context.Context, t *distlock.Term) error {
		fmt.Println("elected; the term is a fence:", t.Number() == distlock.FromContext(ctx).Fence())
		cancel() // the program shuts down

		<-ctx.Done() // lead until then, or until leadership is lost
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
	election, _ := locker.Election("scheduler", distlock.Holder("node-1"))

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, func(ctx context.Context, _ *distlock.Term) error {
		leader, err := election.Leader(ctx)
		fmt.Println(leader.Holder, "leads", err)
		return errEnough
	})
	// Output: node-1 leads <nil>
}

func ExampleElection_Observe() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election("scheduler", distlock.Holder("node-1"))

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, func(ctx context.Context, _ *distlock.Term) error {
		for leader, err := range election.Observe(ctx) {
			fmt.Println(leader.Holder, err) // and again whenever it changes
			return errEnough
		}
		return nil
	})
	// Output: node-1 <nil>
}

func ExampleTerm_Publish() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election("scheduler")

	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, func(ctx context.Context, t *distlock.Term) error {
		if err := t.Publish(ctx, []byte("10.0.0.1:8080")); err != nil {
			return err
		}
		leader, _ := election.Leader(ctx)
		fmt.Printf("%s\n", leader.Value)
		return errEnough
	})
	// Output: 10.0.0.1:8080
}

func ExampleTerm_Number() {
	ctx, locker := context.Background(), newLocker()
	election, _ := locker.Election("scheduler")

	errEnough := errors.New("that was enough")
	var last uint64
	_ = election.Run(ctx, func(_ context.Context, t *distlock.Term) error {
		if last > 0 {
			fmt.Println("a later term is higher:", t.Number() > last)
			return errEnough
		}
		last = t.Number()
		return nil // resigns
	})
	// Output: a later term is higher: true
}

func ExamplePreferred() {
	// A node with more memory shall lead when it is there.
	ctx, locker := context.Background(), newLocker()
	election, err := locker.Election("scheduler", distlock.Preferred(), distlock.Holder("big node"))
	if err != nil {
		fmt.Println(err) // the store has no queue
		return
	}
	errEnough := errors.New("that was enough")
	_ = election.Run(ctx, func(ctx context.Context, _ *distlock.Term) error {
		leader, _ := election.Leader(ctx)
		fmt.Println(leader.Holder, "leads")
		return errEnough
	})
	// Output: big node leads
}
