package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/lab/torture"
)

// A tortureRun is one call of torture.
type tortureRun struct {
	*app
	torture.Options
	dir         string
	yes, asJSON bool
	store       string
	notes       []string // limits of this run, for people
}

func (a *app) torture() *cobra.Command {
	t := &tortureRun{app: a}
	c := &cobra.Command{
		Use:   "torture",
		Short: "Contend for locks, break clients and links, and check the answers of the store",
		Long: `Contend for locks in your own store, under names of its own. Meanwhile clients are paused for longer
than the TTL, killed and cut off, and requests are lost, delayed and repeated. Then torture checks
the history: exclusion, fencing tokens, losses reported in time, ownership.

The verdict is clean, violated, or not enough. torture exits with 0 if it is clean and with 1 if
not. It exits with 69 if the store cannot be reached, also at the end. See docs/torture.md.`,
		Example: "  distlock torture --store memory: --time 3s --ttl 300ms --keys 8\n" +
			"  distlock torture --store redis://localhost --seed 4711",
		Args: exact(),
		RunE: func(c *cobra.Command, _ []string) error { return t.main(c) },
	}
	f := c.Flags()
	f.Uint64Var(&t.Seed, "seed", 0, "the seed of the plan; 0 chooses a random one")
	f.DurationVar(&t.Time, "time", 20*time.Second, "how long clients contend; at least 6 TTLs")
	f.DurationVar(&t.TTL, "ttl", time.Second, "the TTL of the locks; pauses are longer")
	f.IntVar(&t.Clients, "clients", 4, "the number of clients in this process, each with a bad link of its own")
	f.IntVar(&t.Processes, "processes", 2, "the number of processes, which are paused and killed")
	f.IntVar(&t.Keys, "keys", 4, "the number of names that are contended for at a time")
	f.Float64Var(&t.Rate, "rate", 200, "the number of attempts in a second, of all clients together")
	f.StringVar(&t.dir, "dir", "", "the folder for the history of a run that fails (a temporary one)")
	f.BoolVar(&t.asJSON, "json", false, "print one JSON object")
	f.BoolVar(&t.yes, "yes", false, "skip the confirmation for a store that is not on this host")
	return c
}

func (t *tortureRun) main(c *cobra.Command) error {
	var err error
	if t.store, err = t.address(c); err != nil {
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	if err := t.confirmLoad(c.Context(), t.store, "torture", t.yes); err != nil {
		return err
	}
	l, err := t.connect(c.Context(), t.store)
	if err != nil {
		return err
	}
	if least := t.source.Store.Features().MinTTL; t.TTL < least {
		return usage("--ttl is %v, and this store needs at least %v", t.TTL, least)
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	if err := reach(ctx, l); err != nil {
		return err
	}
	plan := torture.NewPlan(t.Options)
	rep, err := t.play(ctx, plan)
	if err != nil {
		return err
	}
	// A store that cannot be reached any more breaks no rule after that. The verdict would be based
	// on a part of the run only.
	if rep.Verdict != torture.Violated {
		err := reach(ctx, l)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return &exitError{exitUnavailable, fmt.Errorf(
				"the store became unreachable after %d holds, with 0 violations until then: %w", rep.Holds(), err)}
		}
	}
	if err := t.print(plan, rep); err != nil {
		return err
	}
	if rep.Verdict != torture.Clean {
		return &exitError{exitFound, nil}
	}
	return nil
}

// reach returns an error if the store cannot be used.
func reach(ctx context.Context, l *distlock.Locker) error {
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := l.Ping(call); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

func (t *tortureRun) check() error {
	const least = 200 * time.Millisecond // with less, delays of the machine itself decide the result
	switch {
	case t.TTL < least || t.TTL > time.Minute:
		return usage("--ttl is %v, want %v to 1m", t.TTL, least)
	case t.Time < torture.MinTime(t.TTL) || t.Time > 24*time.Hour:
		return usage("--time is %v, want %v (6 TTLs) to 24h", t.Time, torture.MinTime(t.TTL))
	case t.Clients < 0 || t.Clients > 100:
		return usage("--clients is %d, want 0 to 100", t.Clients)
	case t.Processes < 0 || t.Processes > 50:
		return usage("--processes is %d, want 0 to 50", t.Processes)
	case t.Keys < 1 || t.Keys > 1000:
		return usage("--keys is %d, want 1 to 1000", t.Keys)
	case !(t.Rate > 0 && t.Rate <= 1e5): // also true for NaN
		return usage("--rate is %v, want more than 0, at most 100000", t.Rate)
	}
	switch {
	case t.Processes == 0:
	case private(t.store):
		t.Processes, t.notes = 0, append(t.notes, "memory: belongs to one process, so no process was paused or killed")
	case !torture.CanProcess:
		t.Processes, t.notes = 0, append(t.notes, "on this system no process was paused or killed")
	}
	if t.Clients+t.Processes < 2 {
		return usage("--clients %d and --processes %d leave nobody to contend with", t.Clients, t.Processes)
	}
	if t.Seed == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		t.Seed = uint64(binary.LittleEndian.Uint32(b[:])) + 1
	}
	return nil
}

// play runs the plan, removes the claims that are left, and evaluates the history.
func (t *tortureRun) play(ctx context.Context, plan *torture.Plan) (*torture.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	prefix := ownPrefix("torture")
	r := torture.New(t.source.Store, t.store, plan, prefix, func() *exec.Cmd {
		//nolint:noctx // the process ends when its standard input ends
		c := exec.Command(self, "torture-process")
		c.Args[0] = os.Args[0]
		c.SysProcAttr = attributes(true) // a group of its own, so that Ctrl-C does not reach it
		return c
	})
	began := time.Now()
	stop := t.showProgress(func() string {
		p := r.Progress()
		return fmt.Sprintf("torture %v of %v: %d holds, %d waits, %d faults, %d losses",
			short(time.Since(began)), t.Time, p.Holds, p.Waits, p.Faults, p.Losses)
	})
	err = r.Play(ctx)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, e := r.Clean(clean); e != nil && !errors.Is(e, errors.ErrUnsupported) {
		t.notes = append(t.notes, "locks of killed processes end with their TTL: "+e.Error())
	}
	stop()
	if err := errors.Join(context.Cause(ctx), err); err != nil {
		return nil, err
	}
	rep, err := t.evaluate(r)
	if err != nil {
		return nil, err
	}
	stop = t.showProgress(func() string { return "torture: waiting until nothing is left in the store" })
	defer stop()
	wait, cancel := context.WithTimeout(ctx, t.TTL+5*time.Second) // a queue entry expires after 3 s
	defer cancel()
	if e := r.Settle(wait); e != nil && !errors.Is(e, errors.ErrUnsupported) {
		t.notes = append(t.notes, e.Error())
	}
	return rep, nil
}

// evaluate checks the history against the rules. It removes the temporary folder for the history if
// the folder is empty.
func (t *tortureRun) evaluate(r *torture.Run) (*torture.Report, error) {
	dir := t.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "distlock-torture-"); err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(dir) }() // fails if the folder is not empty
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	stop := t.showProgress(func() string { return "torture: checking the history" })
	defer stop()
	return r.Check(dir)
}

// ownPrefix returns a new prefix for the names of a command.
func ownPrefix(command string) string {
	return "distlock-" + command + "-" + strings.ToLower(rand.Text()[:8]) + "/"
}

// tortureProcess is the command of the processes that torture starts, pauses and kills.
func (a *app) tortureProcess() *cobra.Command {
	return &cobra.Command{
		Use: "torture-process", Hidden: true, Args: exact(),
		RunE: func(c *cobra.Command, _ []string) error {
			in := json.NewDecoder(a.in)
			var j torture.Job
			if err := in.Decode(&j); err != nil {
				return usage("torture-process is only started by torture: %w", err)
			}
			var err error
			if a.source, err = a.open(c.Context(), j.Store); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, a.in) // torture closes standard input at the end of the run
				cancel()
			}()
			return torture.Work(ctx, a.source.Store, &j, a.out)
		},
	}
}
