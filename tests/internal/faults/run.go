package faults

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/quorum"
)

// A Run is the record of a run.
type Run struct {
	*Env
	Options
	History *history.History
	Notes   []torture.Note
	Left    string // what was left behind; "": nothing

	wrong  []error // errors of the processes and the faults themselves
	stalls []history.Op
	done   map[Kind]int // faults that were made
	weak   []window
}

// A window is a time after a fault under which less is promised.
type window struct {
	client   string // the client that it affects; empty: all
	from, to time.Duration
	not      []history.Invariant
}

// Run lets processes play while one fault follows another, and waits until nothing of them is left.
// [Run.Check] reports the errors of the run.
func (e *Env) Run(t testing.TB, o Options) *Run {
	t.Helper()
	t.Logf("%s: seed %d", e.Name, o.Seed)
	if e.Memory {
		return e.runMemory(t, o)
	}
	o.Late = e.System.Late
	r := &Run{Env: e, Options: o, done: map[Kind]int{}}
	ctx := t.Context()
	store, shut, err := e.Open(ctx, e.url(""), o.TTL)
	if err != nil {
		t.Fatal(err)
	}
	e.confirm(t, store, o.TTL)

	run := torture.New(store, e.url(""), o.plan(), "proof/", nil)
	run.Cast(func(j *torture.Job) *exec.Cmd {
		j.Store, j.Play, j.Guard = e.url(j.Who), o.Play, e.Guard
		var n *testenv.Network
		if w := e.routes[j.Who]; w != nil {
			n, j.Guard = w.network, w.guard
		}
		cmd, err := testenv.Actor(n, Role, e.Name)
		if err != nil {
			panic(err) // the test binary is still in its folder
		}
		return cmd
	})
	playing, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if !o.Calm {
		wg.Go(func() { r.disturb(playing, run, e.Plan(o)) })
	}
	if o.Progress != nil {
		wg.Go(func() {
			for sleep(playing, 10*time.Second) {
				o.Progress(time.Since(run.Began()), run.Progress())
			}
		})
	}
	if o.Enough > 0 {
		wg.Go(func() {
			run.Progressed(playing, o.Enough)
			stop()
		})
	}
	err = run.Play(playing)
	stop()
	wg.Wait()
	shut()
	if err != nil {
		r.wrong = append(r.wrong, err)
	}
	r.History, r.Notes, r.stalls = run.History(), run.Notes(), run.Stalls()
	r.Left = r.leftovers(ctx)
	return r
}

// confirm waits until a majority is no longer a new deployment. Only then does the age of a node
// show that it has forgotten.
func (e *Env) confirm(t testing.TB, s driver.Store, ttl time.Duration) {
	if _, ok := s.(*quorum.Store); !ok {
		return
	}
	for {
		info, err := driver.Inspect(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if info.Age >= 2*ttl {
			return
		}
		time.Sleep(2*ttl - info.Age)
	}
}

// disturb makes the faults of a plan, one after the other, each when a client that it can affect
// holds a lock.
func (r *Run) disturb(ctx context.Context, run *torture.Run, plan []Event) {
	ended := run.Began()
	for _, ev := range plan {
		if !sleep(ctx, max(ev.At-time.Since(run.Began()), ev.After-time.Since(ended))) {
			return
		}
		if time.Since(run.Began()) > r.Time-2*r.TTL {
			return // the faults took long, and the end must be calm
		}
		name, held := run.Holds(ev.Who)
		for late := time.Now(); !held && time.Since(late) < r.TTL; name, held = run.Holds(ev.Who) {
			if !sleep(ctx, time.Millisecond) {
				return
			}
		}
		from := time.Now()
		a := how(ev.Kind)
		if err := a.begin(r.Env, ev); err != nil {
			r.wrong = append(r.wrong, fmt.Errorf("%v: %w", ev, err))
		}
		sleep(ctx, ev.For)
		if err := a.end(r.Env, ev); err != nil {
			r.wrong = append(r.wrong, fmt.Errorf("end of %v: %w", ev, err))
		}
		to := time.Now()
		ended = to
		run.Fault(name, string(ev.Kind), from, to)
		r.done[ev.Kind]++
		if len(ev.Not) > 0 {
			// A holder from before may trust its lease for a TTL. If it was stopped meanwhile, it
			// may be late by another TTL.
			r.weak = append(r.weak, window{name, from.Sub(run.Began()), to.Sub(run.Began()) + 2*r.TTL, ev.Not})
		}
	}
}

// leftovers returns what is in the store, and which connections are open, when all processes are
// gone and their claims have ended.
func (r *Run) leftovers(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	store, shut, err := r.Open(ctx, r.url(""), r.TTL)
	if err != nil {
		return err.Error()
	}
	err = settle(ctx, store)
	shut()
	if err != nil {
		return err.Error()
	}
	for _, w := range r.routes {
		for _, p := range w.proxies {
			if n := p.Conns(); n > 0 && !wait(ctx, func() bool { return p.Conns() == 0 }) {
				return fmt.Sprintf("%d connections of processes that have ended", n)
			}
		}
	}
	if r.left == nil {
		return ""
	}
	var what string
	wait(ctx, func() bool { // a server takes a moment to notice that a client is gone
		what, err = r.left(ctx, r.Env)
		return err == nil && what == ""
	})
	if err != nil {
		return err.Error()
	}
	return what
}

// settle waits until no claim and no queue entry is in the store.
func settle(ctx context.Context, s driver.Store) error {
	var last string
	ok := wait(ctx, func() bool {
		last = ""
		for c, err := range driver.List(ctx, s, "") {
			switch {
			case errors.Is(err, errors.ErrUnsupported): // the system's own check must find leftovers
			case err != nil:
				last = err.Error()
			case !c.Kept:
				last = fmt.Sprintf("a claim of %s on %s, waiting: %v", c.Holder, c.Key, c.Waiting)
			}
		}
		return last == ""
	})
	if !ok {
		return fmt.Errorf("left in the store: %s", last)
	}
	return nil
}

func wait(ctx context.Context, done func() bool) bool {
	for !done() {
		if !sleep(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return true
}
