package torture

import (
	"sync"

	"github.com/distlock/distlock/internal/lab/history"
)

// A ledger records the current holders during the run.
type ledger struct {
	mu    sync.Mutex
	open  map[string]map[int64]bool // by client: its holds
	count Progress
}

// Progress is the progress of a run.
type Progress struct {
	Holds, Waits, Faults, Losses int
}

func newLedger() *ledger { return &ledger{open: map[string]map[int64]bool{}} }

// note adds an operation that was called or changed.
func (l *ledger) note(op *history.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case op.Kind == history.Acquire && op.Outcome == history.Granted:
		if l.open[op.Client] == nil {
			l.open[op.Client] = map[int64]bool{}
		}
		l.open[op.Client][op.Hold] = true
		l.count.Holds++
		if op.Wait.Seq != 0 {
			l.count.Waits++
		}
	case op.Kind == history.Release:
		delete(l.open[op.Client], op.Hold)
	case op.Kind == history.Lost && op.Outcome == history.Done:
		delete(l.open[op.Client], op.Hold)
		l.count.Losses++
	case op.Kind == history.Fault:
		l.count.Faults++
	}
}

// holds reports whether a client holds anything.
func (l *ledger) holds(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open[client]) > 0
}

// anyHolds reports whether any client holds anything.
func (l *ledger) anyHolds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, open := range l.open {
		if len(open) > 0 {
			return true
		}
	}
	return false
}

func (l *ledger) progress() Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}
