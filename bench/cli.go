package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cli measures the time that distlock run adds to a command, and the CPU time of waiting processes.
func (b *bench) cli() error {
	dir, err := os.MkdirTemp("", "distlock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "distlock")
	build := osexec.CommandContext(b.ctx, "go", "build", "-o", program, "./cmd/distlock")
	build.Dir = ".." // the folder of this module is inside the main module
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	if err := b.added(program, dir); err != nil {
		return err
	}
	return b.waiters(program, dir)
}

// A command is one way to run true.
type command struct {
	name string
	argv []string
}

// An expense is the cost of one run of a command.
type expense struct{ wall, computing time.Duration }

// added runs commands alternately, so that all meet the same noise. Computing is the CPU time of
// the command and its child processes; on a busy machine it says more than the elapsed time.
func (b *bench) added(program, dir string) error {
	title := "distlock run: what it adds to a command"
	if !b.pick(title) {
		return nil
	}
	store := "sqlite://" + filepath.Join(dir, "run.db")
	kept := "sqlite://" + filepath.Join(dir, "kept.db")
	all := []command{
		{"true", []string{"true"}},
		{"distlock version", []string{program, "version"}},
		{"distlock run --store memory: x -- true", []string{program, "run", "--store", "memory:", "x", "--", "true"}},
		{"distlock run x -- true", []string{program, "run", "--store", store, "x", "--", "true"}},
		{"the same, while another process has the file open", []string{program, "run", "--store", kept, "x", "--", "true"}},
	}
	if flock, err := osexec.LookPath("flock"); err == nil {
		all = append(all, command{"flock FILE true", []string{flock, filepath.Join(dir, "flock"), "true"}})
	}
	end, err := b.keepOpen(program, kept)
	if err != nil {
		return err
	}
	defer end()
	costs := make([][]expense, len(all))
	each := b.short(20, 1) // runs in a round
	for i := range (b.rounds + 1) * each {
		b.progress.show("%s: run %d of %d", title, i+1, (b.rounds+1)*each)
		for at := range all {
			k := (at + i) % len(all)
			c, err := b.once(all[k])
			if err != nil {
				return fmt.Errorf("%s: %w", all[k].name, err)
			}
			if i >= each {
				costs[k] = append(costs[k], c)
			}
		}
	}
	b.progress.clear()
	t := table{Title: title, Columns: []column{p50, {"added", "s"}, {"least", "s"}, {"computing", "s"}}}
	wall := func(c expense) time.Duration { return c.wall }
	base := median(costs[0], wall)
	for i, c := range all {
		least := slices.MinFunc(costs[i], func(a, b expense) int { return int(a.wall - b.wall) })
		t.Rows = append(t.Rows, row{c.name, []float64{
			median(costs[i], wall).Seconds(), (median(costs[i], wall) - base).Seconds(), least.wall.Seconds(),
			median(costs[i], func(c expense) time.Duration { return c.computing }).Seconds(),
		}})
	}
	got := median(costs[3], wall) - base
	t.Goals = []goal{{"added: at most 15ms", got.Round(10 * time.Microsecond).String(), got <= 15*time.Millisecond}}
	b.report(t)
	return nil
}

// once runs a command.
func (b *bench) once(c command) (expense, error) {
	cmd := osexec.CommandContext(b.ctx, c.argv[0], c.argv[1:]...)
	var out bytes.Buffer
	cmd.Stderr = &out
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil {
		return expense{}, fmt.Errorf("%w: %s", err, out.String())
	}
	return expense{took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// keepOpen starts a process that holds another lock of the file until end is called.
func (b *bench) keepOpen(program, store string) (end func(), err error) {
	cmd := osexec.CommandContext(b.ctx, program, "run", "--store", store, "other", "--", "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = in.Close(); _ = cmd.Wait() }, nil
}

// waiters measures processes that wait for a lock that is never released.
func (b *bench) waiters(program, dir string) error {
	n := b.short(50, 3)
	title := fmt.Sprintf("distlock run: %d processes that wait, SQLite", n)
	if !b.pick(title) {
		return nil
	}
	store := "sqlite://" + filepath.Join(dir, "wait.db")
	var s stack
	defer s.undo()
	if out, err := osexec.CommandContext(b.ctx, program, "acquire", "--store", store, "--ttl", "10m", "x").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var pids []int
	for range n {
		cmd := osexec.CommandContext(b.ctx, program, "run", "--store", store, "x", "--", "true")
		if err := cmd.Start(); err != nil {
			return err
		}
		s.push(func() { _ = cmd.Wait() })
		s.push(func() { _ = cmd.Process.Signal(os.Interrupt) })
		pids = append(pids, cmd.Process.Pid)
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		out, err := osexec.CommandContext(b.ctx, program, "ls", "--store", store, "x").Output()
		if err != nil {
			return err
		}
		if bytes.Count(out, []byte("waiting")) == n {
			break
		}
		if time.Since(began) > time.Minute {
			return errors.New("the processes are not in the queue")
		}
	}
	span := b.pause(20 * b.each)
	b.progress.show("%s, for %v", title, span)
	before := computing(pids)
	select {
	case <-time.After(span):
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	share := math.NaN()
	if after := computing(pids); after > 0 { // otherwise this system does not report it
		share = 100 * (after - before).Seconds() / span.Seconds()
	}
	b.report(table{Title: title, Columns: []column{{"of a core", "%"}}, Rows: []row{{"all of them", []float64{share}}}})
	return nil
}

// computing returns the CPU time of processes, which Linux reports for each of their threads.
func computing(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // the thread has ended
			}
			var ns int64
			if _, err := fmt.Fscan(strings.NewReader(string(text)), &ns); err == nil {
				sum += time.Duration(ns)
			}
		}
	}
	return sum
}
