package torture

import (
	"context"
	"os/exec"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

// What is here is for a caller who breaks more than clients: who owns the servers and the ways to them, and has a
// judge of its own.

// Cast lets the caller change each job before its process is started: the store's URL, so that every process can
// have a way of its own, and what it plays. It returns the command of that process.
func (r *Run) Cast(f func(*Job) *exec.Cmd) { r.cast = f }

func (r *Run) actor(j *Job) *exec.Cmd {
	if r.cast == nil {
		return r.command()
	}
	return r.cast(j)
}

// named keeps which process plays whom.
func (r *Run) named(who, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[who] = name
}

// Holds returns the name in the history of whom the plan calls who, and whether it holds something now. If
// who is empty, that is anybody.
func (r *Run) Holds(who string) (name string, ok bool) {
	if who == "" {
		return "", r.ledger.anybody()
	}
	r.mu.Lock()
	name = who
	if n, ok := r.names[who]; ok {
		name = n
	}
	r.mu.Unlock()
	return name, r.ledger.holds(name)
}

// Fault takes down what the caller did to a client, by its name in the history, or to all if it is empty.
func (r *Run) Fault(client, name string, from, to time.Time) { r.rec.Fault(client, name, from, to) }

// Stage is one for clients of this process, beside those that Play starts. They are to be done before History is called.
func (r *Run) Stage(who string) *Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.staged = append(r.staged, who)
	return &Stage{
		Job:      &Job{Plan: r.plan, Who: who, Name: who, Prefix: r.prefix, Origin: r.origin, Store: r.url},
		Recorder: r.rec, Start: r.start,
		note: func(n Note) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.notes = append(r.notes, n)
		},
	}
}

// Watch takes down the stalls of this process for all that have a stage in it, until ctx ends.
func (r *Run) Watch(ctx context.Context) {
	stalls(ctx, r.start, func(s stall) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stalled = append(r.stalled, pauses([]stall{s}, r.staged)...)
	}, nil)
}

// Progressed waits until so many holds were granted and a few faults were made, or ctx ends: on a quick machine the holds alone may be over
// before the first fault.
func (r *Run) Progressed(ctx context.Context, holds int) {
	const faults = 3
	for p := r.Progress(); (p.Holds < holds || p.Faults < faults) && over(ctx, 20*time.Millisecond); p = r.Progress() {
	}
}

// Began is when the history begins.
func (r *Run) Began() time.Time { return r.start }

// History is all that was done. Call it when Play has returned.
func (r *Run) History() *history.History {
	h := history.Merge(append(slices.Clone(r.parts), r.rec.History())...)
	h.End = max(h.End, time.Since(r.start))
	return h
}

// Stalls are the pauses that the machine made by itself. They excuse a late word, and are no faults of the run.
func (r *Run) Stalls() []history.Op { return r.stalled }

// Notes are what the processes said beside their operations.
func (r *Run) Notes() []Note { return r.notes }
