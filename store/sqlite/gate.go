package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// errBusy says that others kept the file for too long.
var errBusy = errors.New("the file is in use by others")

// A gate lets one call at a time use the connection. Renewals and releases go before those who want something new: a
// crowd that asks for claims must not cost others theirs.
type gate struct {
	mu    sync.Mutex
	taken bool
	first []chan struct{}
	later []chan struct{}
}

// enter waits for the connection until ctx is over or a time has come; the zero time never comes.
func (g *gate) enter(ctx context.Context, until time.Time, first bool) error {
	g.mu.Lock()
	if !g.taken {
		g.taken = true
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	line := &g.later
	if first {
		line = &g.first
	}
	*line = append(*line, turn)
	g.mu.Unlock()

	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	err := errBusy
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
	}
	g.mu.Lock()
	at := slices.Index(*line, turn)
	if at >= 0 {
		*line = slices.Delete(*line, at, at+1)
	}
	g.mu.Unlock()
	if at < 0 {
		g.leave() // the turn came at the same moment
	}
	return err
}

// leave hands the connection to the next.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, line := range []*[]chan struct{}{&g.first, &g.later} {
		if len(*line) > 0 {
			close((*line)[0])
			*line = slices.Delete(*line, 0, 1)
			return
		}
	}
	g.taken = false
}
