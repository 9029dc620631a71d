package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/gocronlock"
	"github.com/distlock/distlock/store/mem"
)

func ExampleNewLocker() {
	store := mem.New() // a real program uses a store that its processes share

	// Clocks differ by less than 5 s, and jobs are at least a minute apart.
	locker, err := gocronlock.NewLocker(store, 5*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close(context.Background())
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	fmt.Println(err)
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(func() {}), gocron.WithName("report"))
	fmt.Println(err)
	_ = scheduler.Shutdown()
	// Output:
	// <nil>
	// <nil>
}

func ExampleLocker_Lock() {
	ctx := context.Background()
	locker, _ := gocronlock.NewLocker(mem.New(), 5*time.Second)
	defer locker.Close(ctx)

	lock, err := locker.Lock(ctx, "report")
	fmt.Println(err)
	_ = lock.Unlock(ctx)
	_, err = locker.Lock(ctx, "report") // a scheduler whose clock is late
	fmt.Println(errors.Is(err, distlock.ErrHeld))
	// Output:
	// <nil>
	// true
}

func ExampleLocker_Close() {
	locker, _ := gocronlock.NewLocker(mem.New(), 5*time.Second)
	fmt.Println(locker.Close(context.Background())) // after the scheduler was shut down
	// Output: <nil>
}

func ExampleNewElector() {
	locker, _ := distlock.New(mem.New()) // a real program uses a store that its processes share
	defer locker.Close(context.Background())
	election, err := locker.Election()
	if err != nil {
		fmt.Println(err)
		return
	}
	elector := gocronlock.NewElector(election, "schedulers")
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	fmt.Println(err)
	_ = scheduler.Shutdown()
	// Output: <nil>
}

func ExampleElector_IsLeader() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)
	election, _ := locker.Election()
	elector := gocronlock.NewElector(election, "schedulers")

	for elector.IsLeader(ctx) != nil { // wait for the election
		time.Sleep(time.Millisecond)
	}
	elector.Close()
	fmt.Println(errors.Is(elector.IsLeader(ctx), gocronlock.ErrNotLeader))
	// Output: true
}

func ExampleElector_Close() {
	locker, _ := distlock.New(mem.New())
	defer locker.Close(context.Background())
	election, _ := locker.Election()
	elector := gocronlock.NewElector(election, "schedulers")

	elector.Close() // resigns, so that another process is elected at once
	leader, err := election.Leader(context.Background(), "schedulers")
	fmt.Println(leader.Fence, err)
	// Output: 0 <nil>
}
