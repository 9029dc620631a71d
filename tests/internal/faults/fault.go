package faults

import (
	"fmt"
	"time"

	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/testenv"
)

// A Kind is a kind of fault.
type Kind string

// The kinds. Pause and Kill of processes belong to package torture.
const (
	ServerStopped Kind = "server stopped"               // SIGSTOP, and SIGCONT
	ServerKilled  Kind = "server killed"                // SIGKILL, and a start with its data
	ServerEmptied Kind = "server killed, its data lost" // SIGKILL, and a start without its data
	Promoted      Kind = "replica promoted"             // the primary is killed, and its replica takes over
	NoMemory      Kind = "out of memory"
	NoDisk        Kind = "disk full"

	Slow          Kind = "latency"
	RepliesLost   Kind = "replies swallowed"
	RequestsLost  Kind = "requests swallowed"
	Partition     Kind = "partition"
	HeldBack      Kind = "held back" // and delivered late
	Reset         Kind = "reset"
	ReplyCut      Kind = "reply cut" // at a byte
	Dropped       Kind = "packets dropped"
	DroppedToward Kind = "packets to the server dropped"
	DroppedBack   Kind = "packets from the server dropped"
)

// An action describes how a kind is produced, and its target.
type action struct {
	client      bool    // on the route of one process; otherwise on a server
	network     bool    // by the kernel: it needs a network
	disk        bool    // it needs a disk
	least, most float64 // duration, in TTLs
	begin       func(e *Env, ev Event) error
	end         func(e *Env, ev Event) error
}

// actions are the kinds, in the order in which a seed draws them.
var actions = []struct {
	kind Kind
	action
}{
	{ServerStopped, action{least: .1, most: 1.5,
		begin: func(e *Env, ev Event) error { return e.nodes(ev, func(n *Node) { n.Server.Pause() }) },
		end:   func(e *Env, ev Event) error { return e.nodes(ev, func(n *Node) { n.Server.Resume() }) }}},
	{ServerKilled, action{least: .05, most: .5,
		begin: func(e *Env, ev Event) error { return e.nodes(ev, func(n *Node) { n.Server.Kill() }) },
		end:   func(e *Env, ev Event) error { return e.nodes(ev, func(n *Node) { n.Server.Restart() }) }}},
	{ServerEmptied, action{least: .05, most: .3,
		begin: func(e *Env, ev Event) error { return e.nodes(ev, func(n *Node) { n.Server.Kill() }) },
		end:   func(e *Env, ev Event) error { return e.nodes(ev, func(n *Node) { n.Server.RestartEmpty() }) }}},
	{Promoted, action{least: .05, most: .3,
		begin: func(e *Env, _ Event) error { return e.promote() },
		end:   func(e *Env, _ Event) error { return e.reinstate() }}},
	{NoMemory, action{least: .2, most: .8,
		begin: func(e *Env, ev Event) error { return e.limit(ev, true) },
		end:   func(e *Env, ev Event) error { return e.limit(ev, false) }}},
	{NoDisk, action{disk: true, least: .2, most: .8,
		begin: func(e *Env, _ Event) error { return e.disk.Fill() },
		end:   func(e *Env, _ Event) error { return e.freeDisk() }}},

	{Slow, onRoute(.1, .5, func(p *testenv.ProxyServer, ev Event) { p.Latency(time.Duration(1+ev.Arg%60) * time.Millisecond) })},
	{RepliesLost, onRoute(.1, 1.5, func(p *testenv.ProxyServer, _ Event) { p.Cut(testenv.ToClient) })},
	{RequestsLost, onRoute(.1, 1.5, func(p *testenv.ProxyServer, _ Event) { p.Cut(testenv.ToServer) })},
	{Partition, onRoute(1.2, 1.8, func(p *testenv.ProxyServer, _ Event) { p.Cut(testenv.Both) })},
	{HeldBack, onRoute(.1, 1.5, func(p *testenv.ProxyServer, _ Event) { p.Hold(testenv.Both) })},
	{Reset, onRoute(.01, .05, func(p *testenv.ProxyServer, _ Event) { p.Reset() })},
	{ReplyCut, onRoute(.05, .1, func(p *testenv.ProxyServer, ev Event) { p.CutAfter(ev.Arg % 120) })},

	{Dropped, onCable(1.2, 1.8, testenv.Both)},
	{DroppedToward, onCable(.5, 1.8, testenv.ToServer)},
	{DroppedBack, onCable(.5, 1.8, testenv.ToClient)},
}

func onRoute(least, most float64, do func(*testenv.ProxyServer, Event)) action {
	return action{client: true, least: least, most: most,
		begin: func(e *Env, ev Event) error {
			w := e.routes[ev.Who]
			for _, p := range w.proxies {
				do(p, ev)
			}
			if w.link != nil { // a link has only this fault
				w.link.Cut(chaos.All)
			}
			return nil
		},
		end: func(e *Env, ev Event) error {
			w := e.routes[ev.Who]
			for _, p := range w.proxies {
				p.Heal()
			}
			if w.link != nil {
				w.link.Heal()
			}
			return nil
		}}
}

func onCable(least, most float64, d testenv.Direction) action {
	return action{client: true, network: true, least: least, most: most,
		begin: func(e *Env, ev Event) error { return e.routes[ev.Who].network.Cut(d) },
		end:   func(e *Env, ev Event) error { return e.routes[ev.Who].network.Heal() }}
}

// how returns the action of a kind.
func how(k Kind) action {
	for _, a := range actions {
		if a.kind == k {
			return a.action
		}
	}
	panic(fmt.Sprintf("faults: unknown kind %q", k))
}

// An Applied is a kind of fault that applies to a system.
type Applied struct {
	Kind
	Nodes int                 // how many servers at once; 0: one
	Not   []history.Invariant // promises that do not hold under it, for the keys that it met

	// Before and After are how long the system must have no other fault before and after this one,
	// for its promises to hold.
	Before, After time.Duration
}

// forgotten lists the promises that do not hold when the store may have forgotten a claim: it may
// make a second grant before the first holder knows. Fences, and the resources that they guard, are
// still promised.
var forgotten = []history.Invariant{history.I3, history.I4, history.I9, history.Model}
