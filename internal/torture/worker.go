package torture

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/history"
)

// A Job is what a process of its own is told.
type Job struct {
	Plan   *Plan         `json:"plan"`
	Who    string        `json:"who"`    // in the plan
	Name   string        `json:"name"`   // in the history
	Prefix string        `json:"prefix"` // of its keys
	Origin time.Duration `json:"origin"` // where the history begins, on the clock of the host
	Store  string        `json:"store"`  // a URL, for the caller of Work
}

// A line is what such a process says: an operation, by its number, or a stall.
type line struct {
	N     int         `json:"n"`
	Op    *history.Op `json:"op,omitempty"`
	Stall *stall      `json:"stall,omitempty"`
}

// Work is the life of a process of its own. It plays its clients until ctx ends, and writes what they do to out
// before they go on.
func Work(ctx context.Context, store driver.Store, j *Job, out io.Writer) error {
	now, shared := instant()
	start := now.Add(j.Origin - shared)
	w := &teller{start: start, enc: json.NewEncoder(out)}
	rec := history.NewSince(start, func(n int, op history.Op) { w.say(line{N: n, Op: &op}) })
	t, err := join(store, j.Plan, j.Who, j.Name, j.Prefix, start, rec)
	if err != nil {
		return err
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg, watching sync.WaitGroup
	watching.Go(func() { stalls(watch, start, func(s stall) { w.say(line{Stall: &s}) }) })
	t.play(ctx, &wg)
	wg.Wait()
	t.leave()
	stop()
	watching.Wait()
	return w.err
}

// A teller writes lines. It is not buffered: what is written survives the death of the process.
type teller struct {
	start time.Time

	mu  sync.Mutex
	enc *json.Encoder
	err error
}

func (w *teller) say(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	began := time.Now()
	w.err = w.enc.Encode(l)
	if took := time.Since(began); took > stallLeast && w.err == nil { // nobody read: everybody had to wait
		from := began.Sub(w.start)
		w.err = w.enc.Encode(line{Stall: &stall{from - stallEdge, from + took + stallEdge}})
	}
}
