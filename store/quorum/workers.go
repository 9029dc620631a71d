package quorum

import (
	"sync"
	"time"
)

// workers are the goroutines that make the calls to nodes. A worker waits for the next call when it
// is done: a client's call needs a deep stack, and the stack of a new goroutine would have to grow
// for each call.
type workers struct {
	mu     sync.Mutex
	idle   []chan task // of the workers that wait; the last one is used first
	fewest int         // the smallest number of idle workers since the last trim
	timer  *time.Timer // calls trim; nil: it was never needed
	armed  bool
	closed bool
	wg     sync.WaitGroup
}

// A task is one call to a node. The zero task is none.
type task struct {
	round interface{ call(node int) (next task) }
	node  int
}

// A worker that is not needed ends after idleLimit at least, and twice idleLimit at most.
const idleLimit = time.Second

// do lets a worker make a call, and the calls to the same node that wait for it.
func (w *workers) do(t task) {
	if t.round == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.idle); n > 0 {
		w.idle[n-1] <- t // its buffer holds one task
		w.idle = w.idle[:n-1]
		w.fewest = min(w.fewest, n-1)
		return
	}
	w.wg.Go(func() { w.work(t) })
}

// work makes calls until its channel is closed.
func (w *workers) work(t task) {
	tasks := make(chan task, 1)
	for ok := true; ok; t, ok = <-tasks {
		for t.round != nil {
			t = t.round.call(t.node)
		}
		if !w.wait(tasks) {
			return
		}
	}
}

// wait adds a worker to the idle ones. It returns false if the workers are closed.
func (w *workers) wait(tasks chan task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.idle = append(w.idle, tasks)
	switch {
	case w.armed:
	case w.timer == nil:
		w.timer = time.AfterFunc(idleLimit, w.trim)
	default:
		w.timer.Reset(idleLimit)
	}
	w.armed = true
	return true
}

// trim ends the workers that were not needed since the last trim.
func (w *workers) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tasks := range w.idle[:w.fewest] {
		close(tasks)
	}
	w.idle = append(w.idle[:0], w.idle[w.fewest:]...)
	w.fewest = len(w.idle)
	if w.armed = len(w.idle) > 0; w.armed {
		w.timer.Reset(idleLimit)
	}
}

// close ends all workers, after their calls have ended.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	for _, tasks := range w.idle {
		close(tasks)
	}
	w.idle, w.fewest = nil, 0
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.wg.Wait()
}
