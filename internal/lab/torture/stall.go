package torture

import (
	"context"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

const (
	tick = 5 * time.Millisecond
	// stallLeast is the longest delay of a tick that is put up with. The shortest margin between the end of
	// trust and a rival is several times as long.
	stallLeast = 20 * time.Millisecond
	// stallEdge is how much a stall may have begun before the last tick, and ended after the next, for
	// other goroutines.
	stallEdge = 20 * time.Millisecond
)

// Gap is the longest stall that is not recorded. A process may not have run at all in a time that
// is no longer.
const Gap = tick + stallLeast

// A stall is a time in which the machine let a process do nothing, on the clock of the history. No
// client can be told anything then, and no lock can help it.
type stall struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// beatEvery is after how many ticks a process says that it runs.
const beatEvery = 10

// stalls tells of each stall of this process until ctx ends, and with beat, if it is not nil, that it runs.
func stalls(ctx context.Context, start time.Time, tell func(stall), beat func()) {
	t := time.NewTicker(tick)
	defer t.Stop()
	n := 0
	for last := time.Now(); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		if now.Sub(last) > Gap {
			tell(stall{last.Sub(start) - stallEdge, now.Sub(start) + stallEdge})
		}
		last = now
		if beat != nil && n%beatEvery == 0 {
			beat()
		}
	}
}

// pauses are stalls of a process as a history knows them, for each of its clients.
func pauses(all []stall, clients []string) []history.Op {
	var ops []history.Op
	for _, s := range all {
		for _, c := range clients {
			ops = append(ops, history.Op{
				Kind: history.Fault, Client: c, What: history.Pause,
				Call: history.Stamp{At: max(s.From, 0)}, Return: history.Stamp{At: s.To},
			})
		}
	}
	return ops
}
