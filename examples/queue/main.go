// Command queue runs three processes on one job queue. The first process is killed in the middle of
// a job: another process starts that job again when the lock has expired, and not before. One job
// takes longer than the TTL: its lock is renewed, and no other process starts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/store/sqlite"
)

const (
	workers = 3
	jobs    = 6
	longJob = 4 // takes more than two TTLs
	ttl     = 500 * time.Millisecond
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 2 {
		run = func(ctx context.Context) error { return work(ctx, os.Args[1], os.Args[2]) }
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// start runs the workers and reports what they did.
func start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The first worker has started a job, which it never ends, before the others start.
	victim, err := process.Start(ctx, dir, "victim")
	if err != nil {
		return err
	}
	for !logged(dir, "begin") {
		time.Sleep(time.Millisecond)
	}
	var others []*process.Process
	for i := 1; i < workers; i++ {
		p, err := process.Start(ctx, dir, fmt.Sprint("worker-", i))
		if err != nil {
			return err
		}
		others = append(others, p)
	}
	time.Sleep(2 * ttl) // the victim lives: it keeps its job for longer than a TTL
	if err := note(dir, "kill victim"); err != nil {
		return err
	}
	if err := victim.Kill(); err != nil {
		return err
	}
	for _, p := range others {
		if err := p.Wait(); err != nil {
			return err
		}
	}
	return report(dir)
}

// work does every job that is neither done nor locked, until all jobs are done.
func work(ctx context.Context, dir, me string) error {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locker, err := distlock.New(store, distlock.TTL(ttl), distlock.Holder(me))
	if err != nil {
		return err
	}
	defer locker.Close(ctx)
	for done := 0; done < jobs; time.Sleep(20 * time.Millisecond) {
		done = 0
		for job := 1; job <= jobs; job++ {
			if finished(dir, job) {
				done++
				continue
			}
			if _, err := locker.TryDo(ctx, fmt.Sprint("job/", job), func(ctx context.Context) error {
				return do(ctx, dir, me, job)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// do does a job. It first checks again whether the job is done: another worker may have done it
// between the first check and the lock.
func do(ctx context.Context, dir, me string, job int) error {
	if finished(dir, job) {
		return nil
	}
	if err := note(dir, fmt.Sprintf("begin %d %s", job, me)); err != nil {
		return err
	}
	effort := ttl / 10
	switch {
	case me == "victim":
		effort = time.Hour
	case job == longJob:
		effort = 5 * ttl / 2
	}
	select {
	case <-time.After(effort):
	case <-ctx.Done():
		return context.Cause(ctx) // the lock is lost: another worker may have started the job
	}
	if err := note(dir, fmt.Sprintf("end %d %s", job, me)); err != nil {
		return err
	}
	return os.WriteFile(mark(dir, job), nil, 0o600)
}

func mark(dir string, job int) string { return filepath.Join(dir, fmt.Sprint("done-", job)) }

func finished(dir string, job int) bool {
	_, err := os.Stat(mark(dir, job))
	return err == nil
}

// note adds a line to the log, which all processes share.
func note(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

func logged(dir, word string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "log"))
	return !errors.Is(err, fs.ErrNotExist) && strings.Contains(string(b), word)
}

// report reads the log, prints how many jobs were done, and fails if two workers ever did one job
// at the same time.
func report(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	at, ended, again, killed := map[int]string{}, 0, 0, false
	for line := range strings.Lines(string(b)) {
		word := strings.Fields(line)
		if word[0] == "kill" {
			killed = true
			continue
		}
		job, err := strconv.Atoi(word[1])
		if err != nil {
			return err
		}
		switch {
		case word[0] == "end":
			delete(at, job)
			ended++
		case at[job] == "":
			at[job] = word[2]
		case at[job] == "victim" && killed:
			at[job] = word[2]
			again++
		default:
			return fmt.Errorf("%s started job %d while %s was working on it", word[2], job, at[job])
		}
	}
	fmt.Printf("%d jobs were done, %d of them started again after its worker was killed; no two workers did one job at the same time\n", ended, again)
	return nil
}
