package torture

import (
	"context"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

const (
	tick = 5 * time.Millisecond
	// stallLeast is the longest delay of a tick that is no stall. The shortest margin between the
	// end of trust and a rival is several times as long.
	stallLeast = 20 * time.Millisecond
	// stallEdge is how much earlier than the last tick a stall may have begun for other goroutines,
	// and how much later than the next tick it may have ended.
	stallEdge = 20 * time.Millisecond
)

// Gap is the longest stall that is not recorded. A process may not have run at all during a time of
// up to this length.
const Gap = tick + stallLeast

// A stall is a time in which the machine did not run a process, on the clock of the history. No
// client can be notified during a stall, and no lock can change that.
type stall struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// beatEvery is the number of ticks between two heartbeats of a process.
const beatEvery = 10

// stalls reports each stall of this process until ctx ends. It calls beat, if it is not nil, to
// show that the process runs.
func stalls(ctx context.Context, start time.Time, report func(stall), beat func()) {
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
			report(stall{last.Sub(start) - stallEdge, now.Sub(start) + stallEdge})
		}
		last = now
		if beat != nil && n%beatEvery == 0 {
			beat()
		}
	}
}

// pauses returns the stalls of a process as operations of a history, for each of its clients.
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
