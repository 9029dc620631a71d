package server

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// slots bound the calls of the store that are under way at the same time, of all callers and of
// one identity. Further calls wait, in order. An identity that has its share under way lets the
// calls of others pass.
type slots struct {
	most, share int // negative: no bound

	mu    sync.Mutex
	used  int
	by    map[string]int // calls under way, of each identity
	waits map[string]int // calls in the queue, of each identity
	queue []*waiting
}

// queueShare is how many calls of an identity may wait, for each one that may be under way.
const queueShare = 8

// waiting is a call that waits for a slot.
type waiting struct {
	identity string
	ready    chan struct{}
}

func newSlots(most int) *slots {
	return &slots{most: most, share: max(1, most/2), by: map[string]int{}, waits: map[string]int{}}
}

var errFull = errors.New("too many calls wait")

// enter begins a call, after those before it. It returns an error if ctx or callLimit ends first,
// or if too many calls of the identity wait: the store was not called.
func (l *slots) enter(ctx context.Context, identity string) error {
	if l.most < 0 {
		return nil
	}
	l.mu.Lock()
	if l.fits(identity) {
		l.begin(identity)
		l.mu.Unlock()
		return nil
	}
	if l.waits[identity] >= queueShare*l.share {
		l.mu.Unlock()
		return errFull
	}
	l.waits[identity]++
	w := &waiting{identity, make(chan struct{})}
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callLimit) // a call that need not wait has no timer
	defer cancel()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, w); i >= 0 {
		l.remove(i)
		return ctx.Err()
	}
	return nil // it was let in at the same time; the call returns the error of ctx itself
}

// leave ends a call, and lets the next one in.
func (l *slots) leave(identity string) {
	if l.most < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	if l.by[identity]--; l.by[identity] == 0 {
		delete(l.by, identity)
	}
	for i, w := range l.queue {
		if l.fits(w.identity) {
			l.remove(i)
			l.begin(w.identity)
			close(w.ready)
			return
		}
	}
}

// size returns how many calls are under way, and how many wait.
func (l *slots) size() (used, queued int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, len(l.queue)
}

// fits, begin and remove are called with l.mu held.
func (l *slots) fits(identity string) bool { return l.used < l.most && l.by[identity] < l.share }

func (l *slots) begin(identity string) {
	l.used++
	l.by[identity]++
}

func (l *slots) remove(i int) {
	identity := l.queue[i].identity
	l.queue = slices.Delete(l.queue, i, i+1)
	if l.waits[identity]--; l.waits[identity] == 0 {
		delete(l.waits, identity)
	}
}
