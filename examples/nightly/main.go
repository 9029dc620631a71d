// Command nightly has the schedulers of three hosts fire a report. Each fire is run by one of them, though their clocks differ, and a fire that
// comes while an earlier one still runs is skipped.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store := mem.New() // in earnest, one that the hosts share
	var hosts []*distlock.Cron
	for _, name := range []string{"ann", "bob", "cay"} {
		locker, err := distlock.New(store, distlock.Holder(name))
		if err != nil {
			return err
		}
		defer locker.Close(ctx)
		jobs, err := locker.Cron(nil)
		if err != nil {
			return err
		}
		hosts = append(hosts, jobs)
	}
	night := time.Date(2030, 1, 1, 3, 0, 0, 0, time.UTC)
	fires := 0
	fire := func(night time.Time, report func(ctx context.Context) error) error {
		for i, host := range hosts { // the clock of each is a little behind the one before
			ran, err := host.Run(ctx, "nightly report", night, report)
			if err != nil {
				return err
			}
			if ran {
				fires++
				fmt.Printf("%s: host %d wrote the report\n", night.Format(time.DateOnly), i+1)
			}
		}
		return nil
	}
	quick := func(context.Context) error { return nil }
	if err := fire(night, quick); err != nil {
		return err
	}
	// The second report takes a day: the third night comes while it is written.
	slow := func(context.Context) error { return fire(night.AddDate(0, 0, 2), quick) }
	if err := fire(night.AddDate(0, 0, 1), slow); err != nil {
		return err
	}
	if err := fire(night.AddDate(0, 0, 3), quick); err != nil {
		return err
	}
	fmt.Printf("%d reports in 4 nights: one was skipped, since the one before was still being written\n", fires)
	return nil
}
