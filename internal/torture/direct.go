package torture

import (
	"os/exec"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/history"
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
