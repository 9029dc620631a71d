package torture

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
)

// A Job is the input of a separate process.
type Job struct {
	Plan   *Plan         `json:"plan"`
	Who    string        `json:"who"`             // in the plan
	Name   string        `json:"name"`            // in the history
	Prefix string        `json:"prefix"`          // of its keys
	Origin time.Duration `json:"origin"`          // where the history begins, on the clock of the host
	Store  string        `json:"store"`           // a URL, for the caller of Work
	Play   string        `json:"play,omitempty"`  // what the clients do, for the caller of Perform
	Guard  string        `json:"guard,omitempty"` // a URL of the resource that the locks protect, likewise
}

// A message is one line of output of such a process: an operation, by its number, a stall, or a
// note.
type message struct {
	N     int         `json:"n"`
	Op    *history.Op `json:"op,omitempty"`
	Stall *stall      `json:"stall,omitempty"`
	Note  *Note       `json:"note,omitempty"`
	Beat  bool        `json:"beat,omitempty"` // the process runs, and nothing else
}

// A Note is an observation of a process that is no operation of a lock.
type Note struct {
	At    time.Duration `json:"at"` // on the clock of the history
	Who   string        `json:"who"`
	What  string        `json:"what"`
	Key   string        `json:"key,omitempty"`
	Value string        `json:"value,omitempty"`
}

// A Stage is the environment of the clients of a process.
type Stage struct {
	*Job
	Recorder *history.Recorder
	Start    time.Time // of the history

	note func(Note)
}

// Note records an observation before it returns.
func (s *Stage) Note(what, key, value string) {
	s.note(Note{At: time.Since(s.Start), Who: s.Name, What: what, Key: key, Value: value})
}

// Work is the main function of a separate process. It runs the clients until ctx ends, and writes
// each of their operations to out before the client continues.
func Work(ctx context.Context, store driver.Store, j *Job, out io.Writer) error {
	return Perform(ctx, j, out, func(ctx context.Context, s *Stage) error {
		g, err := join(store, j.Plan, j.Who, j.Name, j.Prefix, s.Start, s.Recorder)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		g.play(ctx, &wg)
		wg.Wait()
		g.leave()
		return nil
	})
}

// Perform is [Work] with clients of the caller: play returns when ctx has ended and they are done.
func Perform(ctx context.Context, j *Job, out io.Writer, play func(context.Context, *Stage) error) error {
	now, shared := instant()
	start := now.Add(j.Origin - shared)
	w := &writer{start: start, enc: json.NewEncoder(out)}
	rec := history.NewSince(start, func(n int, op history.Op) { w.write(message{N: n, Op: &op}) })
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() {
		stalls(watch, start, func(s stall) { w.write(message{Stall: &s}) }, func() { w.write(message{Beat: true}) })
	})
	err := play(ctx, &Stage{Job: j, Recorder: rec, Start: start, note: func(n Note) { w.write(message{Note: &n}) }})
	stop()
	watching.Wait()
	if err != nil {
		return err
	}
	return w.err
}

// A writer writes messages. It is not buffered: written messages survive the death of the process.
type writer struct {
	start time.Time

	mu  sync.Mutex
	enc *json.Encoder
	err error
}

func (w *writer) write(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	began := time.Now()
	w.err = w.enc.Encode(m)
	if took := time.Since(began); took > stallLeast && w.err == nil { // no reader: every client had to wait
		from := began.Sub(w.start)
		w.err = w.enc.Encode(message{Stall: &stall{from - stallEdge, from + took + stallEdge}})
	}
}
