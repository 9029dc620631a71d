package torture

import (
	"context"
	"os/exec"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

// The methods in this file are for callers that break more than clients: callers that own the
// servers and the links to them, and check the history themselves.

// Cast lets the caller change each job before its process is started: the store's URL, so that
// every process can have its own link, and the play. f returns the command of the process.
func (r *Run) Cast(f func(*Job) *exec.Cmd) { r.cast = f }

func (r *Run) actor(j *Job) *exec.Cmd {
	if r.cast == nil {
		return r.command()
	}
	return r.cast(j)
}

// named stores the name of the process that plays who.
func (r *Run) named(who, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[who] = name
}

// Holds returns the name in the history of the client that the plan calls who, and whether the
// client holds something now. If who is empty, ok reports whether any client does.
func (r *Run) Holds(who string) (name string, ok bool) {
	if who == "" {
		return "", r.ledger.anyHolds()
	}
	r.mu.Lock()
	name = who
	if n, ok := r.names[who]; ok {
		name = n
	}
	r.mu.Unlock()
	return name, r.ledger.holds(name)
}

// Fault records a fault of a client, by its name in the history, or of all clients if it is empty.
func (r *Run) Fault(client, name string, from, to time.Time) { r.rec.Fault(client, name, from, to) }

// Stage returns a stage for clients of this process, in addition to those that Play starts. They
// must be done before [Run.History] is called.
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

// Watch records the stalls of this process for all clients with a stage in it, until ctx ends.
func (r *Run) Watch(ctx context.Context) {
	stalls(ctx, r.start, func(s stall) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stalled = append(r.stalled, pauses([]stall{s}, r.staged)...)
	}, nil)
}

// Progressed waits until the given number of holds was granted and a few faults were made, or ctx
// ends. On a fast machine the holds alone may have ended before the first fault.
func (r *Run) Progressed(ctx context.Context, holds int) {
	const faults = 3
	for p := r.Progress(); (p.Holds < holds || p.Faults < faults) && sleep(ctx, 20*time.Millisecond); p = r.Progress() {
	}
}

// Began returns the time at which the history begins.
func (r *Run) Began() time.Time { return r.start }

// History returns all recorded operations. Call it when Play has returned.
func (r *Run) History() *history.History {
	h := history.Merge(append(slices.Clone(r.parts), r.rec.History())...)
	h.End = max(h.End, time.Since(r.start))
	return h
}

// Stalls returns the pauses that the machine made by itself. They excuse a late report, and are no
// faults of the run.
func (r *Run) Stalls() []history.Op { return r.stalled }

// Notes returns the notes of the processes, which are no operations.
func (r *Run) Notes() []Note { return r.notes }
