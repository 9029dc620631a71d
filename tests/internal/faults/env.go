package faults

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/torture"
	"github.com/distlock/distlock/internal/testenv"
)

// Options set the duration and the load of a run.
type Options struct {
	Seed      uint64
	Time      time.Duration
	TTL       time.Duration
	Late      time.Duration // how long claims outlive their TTL: that of the system
	Processes int
	Keys      int    // at a time
	Play      string // what the processes do: see plays
	Rate      int    // attempts per second, of all processes together, of the plays that use it; 0: 300
	Enough    int    // the run ends after so many grants and a few faults; 0: when its time has passed

	Recovery time.Duration // how much longer than usual a process has no fault after a fault
	NoKills  bool          // processes are paused, and none is killed
	NoPauses bool          // processes are killed, and none is paused

	Calm     bool   // no server and no route is broken, only processes
	Only     []Kind // if not empty, the only kinds that are made, besides the faults of processes
	Promised bool   // only faults under which everything is promised

	NoModel  bool                                         // a key has too many operations for the search of the model
	Progress func(took time.Duration, p torture.Progress) // called every ten seconds; nil: not called
}

// plan returns the plan of the faults of processes.
func (o Options) plan() *torture.Plan {
	return torture.NewPlan(torture.Options{
		Seed: o.Seed, Time: o.Time, TTL: o.TTL, Processes: o.Processes, Keys: o.Keys, Rate: float64(cmp.Or(o.Rate, 300)),
		Recovery: o.Recovery, NoKills: o.NoKills, NoPauses: o.NoPauses,
	})
}

// A Node is a server.
type Node struct {
	Server *testenv.Server
	Limit  func(on bool) error // takes its memory away, or returns it; nil: it cannot
}

// An Env is a running system.
type Env struct {
	*System
	Nodes []*Node
	Guard string // the URL of the resource that the locks protect

	// URL returns the URL of the store for the addresses of its nodes, or of proxies in front of
	// them.
	URL func(addrs []string) string

	tb        testing.TB
	routes    map[string]*route // by process
	networked string            // the process that has a network
	disk      *testenv.Disk     // nil: none

	// A system with replicas has one primary in front, and the others replicate it.
	replicas []*testenv.RedisServer
}

// A route is the connection of a process to the nodes.
type route struct {
	proxies []*testenv.ProxyServer
	network *testenv.Network // nil: by the loopback device
	guard   string           // the URL of the resource that the locks protect, as seen from the process
	link    *chaos.Store     // not nil: in this process
}

// lay creates a route for each process. The first has a network, if the machine allows it.
func (e *Env) lay(processes int) {
	e.routes = map[string]*route{}
	if len(e.Nodes) == 0 {
		return
	}
	for i := range processes {
		who := fmt.Sprint("p", i+1)
		w := &route{guard: e.Guard}
		host := "127.0.0.1"
		if i == 0 && e.may("networks", testenv.CanNetwork) {
			w.network = testenv.NewNetwork(e.tb)
			host, e.networked = w.network.Host, who
			if u, err := url.Parse(e.Guard); err == nil && u.Host != "" {
				w.guard = strings.Replace(e.Guard, u.Host, testenv.ProxyAt(e.tb, host, u.Host).Addr, 1)
			}
		}
		for _, n := range e.front() {
			w.proxies = append(w.proxies, testenv.ProxyAt(e.tb, host, n.Server.Addr))
		}
		e.routes[who] = w
	}
}

// may reports whether the machine can do something. Where nothing may be missing, it returns true.
func (e *Env) may(what string, can func() bool) bool {
	if can() || testenv.Required() {
		return true // if the machine cannot, the following steps fail
	}
	e.tb.Logf("LEFT OUT, NOT TESTED: this machine does not allow tests to create %s: run them as root", what)
	return false
}

// front returns the nodes that clients talk to.
func (e *Env) front() []*Node {
	if e.replicas != nil {
		return e.Nodes[:1]
	}
	return e.Nodes
}

// url returns the URL of the store for a process, or the direct URL if who is empty.
func (e *Env) url(who string) string {
	var addrs []string
	if w := e.routes[who]; w != nil {
		for _, p := range w.proxies {
			addrs = append(addrs, p.Addr)
		}
	} else {
		for _, n := range e.front() {
			addrs = append(addrs, n.Server.Addr)
		}
	}
	return e.URL(addrs)
}

// nodes calls do for the servers of an event, one after the other.
func (e *Env) nodes(ev Event, do func(*Node)) error {
	for i := range ev.Nodes {
		do(e.Nodes[(ev.Node+i)%len(e.Nodes)])
	}
	return nil
}

func (e *Env) limit(ev Event, on bool) error {
	var errs []error
	errs = append(errs, e.nodes(ev, func(n *Node) { errs = append(errs, n.Limit(on)) }))
	return errors.Join(errs...)
}

// freeDisk frees space on the disk. A server that ended when it could not write is started again,
// as an operator would do.
func (e *Env) freeDisk() error {
	err := e.disk.Free()
	for _, n := range e.Nodes {
		// A server that is about to end must not be mistaken for one that continues.
		time.Sleep(100 * time.Millisecond)
		if !n.Server.Running() {
			n.Server.Restart()
		}
	}
	return err
}
