package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// errBusy means that other processes kept the file for too long.
var errBusy = errors.New("the file is in use by others")

// A gate lets one call at a time use the connection. Renewals and releases go before new claims, so
// that many acquires at once do not make a holder lose its claim.
type gate struct {
	mu    sync.Mutex
	taken bool
	first []*entrant
	later []*entrant
}

// An entrant is a call at the gate.
type entrant struct {
	call
	f       func(*tx) error
	ready   chan struct{} // closed when the call has the gate, or was run by another one
	by      bool          // another call took this one into its transaction
	err     error         // of that transaction; errApart: nothing was run
	wakeups []wakeup
}

// enter waits for the connection until ctx ends or the time is until; the zero time: no limit.
func (g *gate) enter(ctx context.Context, until time.Time, first bool) error {
	return g.join(ctx, until, &entrant{call: call{first: first}})
}

// join is enter for a call that the call with the connection may take into its transaction. Then
// join returns nil after the transaction has ended, and the call does not have the gate.
func (g *gate) join(ctx context.Context, until time.Time, e *entrant) error {
	g.mu.Lock()
	if !g.taken {
		g.taken = true
		g.mu.Unlock()
		return nil
	}
	e.ready = make(chan struct{})
	queue := &g.later
	if e.first {
		queue = &g.first
	}
	*queue = append(*queue, e)
	g.mu.Unlock()

	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	err := errBusy
	select {
	case <-e.ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
	}
	g.mu.Lock()
	at := slices.Index(*queue, e)
	if at >= 0 {
		*queue = slices.Delete(*queue, at, at+1)
	}
	g.mu.Unlock()
	if at >= 0 {
		return err
	}
	<-e.ready
	if e.by {
		return nil // the outcome is known
	}
	g.leave() // the gate was handed to this call at the same moment
	return err
}

// take removes the next call from the queues if it may join a transaction, and returns it, or nil.
// So a renewal that came meanwhile is next.
func (g *gate) take() *entrant {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := &g.first
	if len(*queue) == 0 {
		queue = &g.later
	}
	if len(*queue) == 0 || !(*queue)[0].joins {
		return nil
	}
	e := (*queue)[0]
	*queue = slices.Delete(*queue, 0, 1)
	e.by = true
	return e
}

// queued reports whether calls wait.
func (g *gate) queued() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.first)+len(g.later) > 0
}

// leave hands the connection to the next call.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range []*[]*entrant{&g.first, &g.later} {
		if len(*queue) > 0 {
			close((*queue)[0].ready)
			*queue = slices.Delete(*queue, 0, 1)
			return
		}
	}
	g.taken = false
}
