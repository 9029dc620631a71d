package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

// An Event is a fault that is planned.
type Event struct {
	At    time.Duration // not before, since the beginning
	After time.Duration // nor sooner than this after the end of the last one, which may take long
	Kind  Kind
	Who   string // whose way; empty: a server
	Node  int    // the first server
	Nodes int    // how many
	For   time.Duration
	Arg   int // what else chance decides
	Not   []history.Invariant
}

func (e Event) String() string {
	whom := e.Who
	if whom == "" {
		whom = fmt.Sprintf("server %d", e.Node+1)
	}
	return fmt.Sprintf("%v %s: %s for %v", e.At.Round(time.Millisecond), whom, e.Kind, e.For.Round(time.Millisecond))
}

// Plan decides which faults happen, to whom and when, by the seed alone. Every kind comes once before any comes
// again. The last TTLs are calm, so that the run can end well.
func (e *Env) Plan(o Options) []Event {
	rng := rand.New(rand.NewPCG(o.Seed, 0xfa017))
	between := func(least, most float64) time.Duration {
		return time.Duration((least + (most-least)*rng.Float64()) * float64(o.TTL))
	}
	all := e.applied(o)
	if len(all) == 0 {
		return nil
	}
	var plan []Event
	var left []Applied
	gap := between(.5, 1)
	for at := gap; ; {
		if len(left) == 0 {
			left = slices.Clone(all)
			rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		f := left[0]
		left = left[1:]
		a := how(f.Kind)
		if short := f.Before - gap; short > 0 {
			at, gap = at+short, f.Before
		}
		ev := Event{At: at, After: gap, Kind: f.Kind, Nodes: max(1, f.Nodes), For: between(a.least, a.most), Arg: rng.IntN(1 << 20), Not: f.Not}
		ev.Node = rng.IntN(max(1, len(e.Nodes)))
		switch {
		case a.network:
			ev.Who = e.wired
		case a.client:
			ev.Who = fmt.Sprint("p", 1+rng.IntN(o.Processes))
		}
		if at += ev.For; at > o.Time-3*o.TTL {
			return plan
		}
		plan = append(plan, ev)
		gap = max(between(.2, .7), f.Rest)
		at += gap
	}
}

// applied are the faults of the system that this machine can make.
func (e *Env) applied(o Options) []Applied {
	return slices.DeleteFunc(slices.Clone(e.System.Faults), func(f Applied) bool {
		a := how(f.Kind)
		return a.network && e.wired == "" || a.disk && e.disk == nil || len(o.Only) > 0 && !slices.Contains(o.Only, f.Kind) ||
			o.Promised && len(f.Not) > 0
	})
}
