package robfigcron_test

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/robfigcron"
	"github.com/distlock/distlock/store/mem"
)

func ExampleNew() {
	locker, _ := distlock.New(mem.New()) // a real program uses a store that its processes share
	defer locker.Close(context.Background())
	jobs, err := locker.Cron(nil)
	if err != nil {
		fmt.Println(err) // the store cannot keep records
		return
	}
	c := cron.New()
	singleton := robfigcron.New(c, jobs, nil)
	_, err = singleton.Add(context.Background(), "0 3 * * *", "nightly report", func(context.Context) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCron_Add() {
	ctx, cancel := context.WithCancel(context.Background())
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)
	jobs, _ := locker.Cron(nil)

	c := cron.New(cron.WithSeconds())
	singleton := robfigcron.New(c, jobs, nil)
	_, err := singleton.Add(ctx, "* * * * * *", "report", func(ctx context.Context) error {
		defer cancel()
		fmt.Println("alone:", distlock.FromContext(ctx).Name())
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	// Output: alone: report
}
