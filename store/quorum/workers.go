package quorum

import (
	"sync"
	"time"
)

// workers are the goroutines that make the calls to nodes. One that is done waits for the next call: a client's call goes
// deep, and the stack of a new goroutine would have to grow for each.
type workers struct {
	mu     sync.Mutex
	idle   []chan task // of those that wait; the one that came last is used first
	fewest int         // of them since trim was last called
	timer  *time.Timer // calls trim; nil: it was never needed
	armed  bool
	closed bool
	wg     sync.WaitGroup
}

// A task is one call to a node.
type task struct {
	round interface{ call(node int) }
	node  int
}

// idleLimit is how long workers wait at least that are not needed, and twice that at most.
const idleLimit = time.Second

// do lets a worker make a call.
func (w *workers) do(t task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.idle); n > 0 {
		w.idle[n-1] <- t // it has room for one
		w.idle = w.idle[:n-1]
		w.fewest = min(w.fewest, n-1)
		return
	}
	w.wg.Go(func() { w.work(t) })
}

// work makes calls, as long as there are any.
func (w *workers) work(t task) {
	tasks := make(chan task, 1)
	for ok := true; ok; t, ok = <-tasks {
		t.round.call(t.node)
		if !w.wait(tasks) {
			return
		}
	}
}

// wait notes that a worker waits for a task, unless no more will come.
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

// trim ends those that were not needed since it was last called.
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

// close ends all, once their calls are over.
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
