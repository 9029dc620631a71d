package distlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/distlock/distlock"
)

func ExampleLocker_Cron() {
	locker := newLocker()
	_, err := locker.Cron(&distlock.CronOptions{Keep: 10 * time.Minute}) // clocks differ by less than that
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
	for range 3 {                                       // as if by three schedulers
		ran, err := jobs.Run(ctx, "nightly report", fire, report)
		fmt.Println(ran, err)
	}
	// Output:
	// writing the report
	// true <nil>
	// false <nil>
	// false <nil>
}
