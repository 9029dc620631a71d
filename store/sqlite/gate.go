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
	first []chan struct{}
	later []chan struct{}
}

// enter waits for the connection until ctx ends or the time is until; the zero time: no limit.
func (g *gate) enter(ctx context.Context, until time.Time, first bool) error {
	g.mu.Lock()
	if !g.taken {
		g.taken = true
		g.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	queue := &g.later
	if first {
		queue = &g.first
	}
	*queue = append(*queue, ready)
	g.mu.Unlock()

	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	err := errBusy
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
	}
	g.mu.Lock()
	at := slices.Index(*queue, ready)
	if at >= 0 {
		*queue = slices.Delete(*queue, at, at+1)
	}
	g.mu.Unlock()
	if at < 0 {
		g.leave() // the gate was handed to this call at the same moment
	}
	return err
}

// leave hands the connection to the next call.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range []*[]chan struct{}{&g.first, &g.later} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = slices.Delete(*queue, 0, 1)
			return
		}
	}
	g.taken = false
}
