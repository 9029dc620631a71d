// Command nightly runs the schedulers of three hosts, which all start a report. Each scheduled run
// is done by one host, although their clocks differ. A run that is due while an earlier one is
// still under way is skipped.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/store/sqlite"
)

const (
	hosts  = 3
	late   = 40 * time.Millisecond // the clock of each host is that much behind the previous one
	effort = 60 * time.Millisecond // to write a report: the second host starts meanwhile, and the third one later
	long   = "2030-01-02"          // the night whose report takes until the morning after the next one
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 2 {
		run = func(ctx context.Context) error { return schedule(ctx, os.Args[1], os.Args[2]) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// schedule is the scheduler of a host. It reads lines: a night when it begins, and "morning".
func schedule(ctx context.Context, file, behind string) error {
	skew, err := time.ParseDuration(behind)
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		return err
	}
	defer locker.Close(ctx)
	jobs, err := locker.Cron(nil)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	morning := make(chan struct{})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		line := in.Text()
		if line == "morning" {
			close(morning)
			morning = make(chan struct{}) // of the next day
			continue
		}
		dawn := morning
		wg.Go(func() {
			time.Sleep(skew)
			if err := runReport(ctx, jobs, line, dawn); err != nil {
				log.Print(err)
			}
		})
	}
	return nil
}

// runReport is the job of a host at night.
func runReport(ctx context.Context, jobs *distlock.Cron, night string, dawn <-chan struct{}) error {
	at, err := time.Parse(time.DateOnly, night)
	if err != nil {
		return err
	}
	// Pass the scheduled time, which is the same on all hosts, and not the time of this host's
	// clock.
	ran, err := jobs.Run(ctx, "nightly report", at, func(context.Context) error {
		fmt.Println("writes")
		if night == long {
			<-dawn
		}
		time.Sleep(effort)
		return nil
	})
	if ran {
		fmt.Println("wrote")
	} else {
		fmt.Println("skips")
	}
	return err
}

// start starts the hosts, and sends them the nights.
func start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "nightly")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &company{said: make(chan string)}
	for i := range hosts {
		p, err := process.Start(ctx, filepath.Join(dir, "locks.db"), (time.Duration(i) * late).String())
		if err != nil {
			return err
		}
		c.hosts = append(c.hosts, p)
		go c.listen(p)
	}
	for _, night := range []string{"2030-01-01", long, "2030-01-03", "2030-01-04"} {
		if err := c.night(ctx, night); err != nil {
			return err
		}
		if night == long {
			continue // the next night begins before the morning
		}
		if err := c.morning(ctx); err != nil {
			return err
		}
	}
	return c.end()
}

// A company is all hosts.
type company struct {
	hosts   []*process.Process
	said    chan string // the lines that the hosts print
	writing int         // how many hosts write a report
}

func (c *company) listen(p *process.Process) {
	for line, err := p.Line(); err == nil; line, err = p.Line() {
		c.said <- line
	}
}

func (c *company) send(line string) error {
	for _, p := range c.hosts {
		if err := p.Send(line); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next line of any host.
func (c *company) next(ctx context.Context) (said string, err error) {
	select {
	case said = <-c.said:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	switch said {
	case "writes":
		c.writing++
	case "wrote":
		c.writing--
	}
	return said, nil
}

// night sends a night to all hosts, and prints how many hosts started to write the report.
func (c *company) night(ctx context.Context, night string) error {
	if err := c.send(night); err != nil {
		return err
	}
	wrote := 0
	for answers := 0; answers < len(c.hosts); {
		switch said, err := c.next(ctx); {
		case err != nil:
			return err
		case said == "writes":
			wrote++
			answers++
		case said == "skips":
			answers++
		}
	}
	if wrote == 0 {
		fmt.Printf("%s: skipped, since the previous report was still being written\n", night)
		return nil
	}
	fmt.Printf("%s: written by %d of %d hosts\n", night, wrote, len(c.hosts))
	return nil
}

// morning sends the morning to all hosts. It returns when all reports are written.
func (c *company) morning(ctx context.Context) error {
	err := c.send("morning")
	for err == nil && c.writing > 0 {
		_, err = c.next(ctx)
	}
	return err
}

func (c *company) end() error {
	for _, p := range c.hosts {
		if err := p.End(); err != nil {
			return err
		}
	}
	return nil
}
