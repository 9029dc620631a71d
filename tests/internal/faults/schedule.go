package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

// An Event is a planned fault.
type Event struct {
	At    time.Duration // not before, since the beginning
	After time.Duration // and not sooner than this after the end of the last fault, which may take long
	Kind  Kind
	Who   string // the process of the route; empty: a server
	Node  int    // the first server
	Nodes int    // how many
	For   time.Duration
	Arg   int // a random number for the action
	Not   []history.Invariant
}

func (e Event) String() string {
	target := e.Who
	if target == "" {
		target = fmt.Sprintf("server %d", e.Node+1)
	}
	return fmt.Sprintf("%v %s: %s for %v", e.At.Round(time.Millisecond), target, e.Kind, e.For.Round(time.Millisecond))
}

// Plan decides the faults, their targets and their times, by the seed alone. Every kind comes once
// before any comes again. The last TTLs are calm, so that the run can end well.
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
			ev.Who = e.networked
		case a.client:
			ev.Who = fmt.Sprint("p", 1+rng.IntN(o.Processes))
		}
		if at += ev.For; at > o.Time-3*o.TTL {
			return plan
		}
		plan = append(plan, ev)
		gap = max(between(.2, .7), f.After)
		at += gap
	}
}

// applied returns the faults of the system that this machine can make.
func (e *Env) applied(o Options) []Applied {
	return slices.DeleteFunc(slices.Clone(e.System.Faults), func(f Applied) bool {
		a := how(f.Kind)
		return a.network && e.networked == "" || a.disk && e.disk == nil || len(o.Only) > 0 && !slices.Contains(o.Only, f.Kind) ||
			o.Promised && len(f.Not) > 0
	})
}
