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

// Options say how long and how hard.
type Options struct {
	Seed      uint64
	Time      time.Duration
	TTL       time.Duration
	Processes int
	Keys      int    // at a time
	Play      string // what the processes do: see plays
	Rate      int    // asks per second, of all together, of the plays that heed it; 0: 300
	Enough    int    // the run ends after so many grants and a few faults; 0: when its time is over

	Rest  time.Duration // how much longer than usual a process is left alone after a fault
	Spare bool          // processes are paused, and none is killed
	Slay  bool          // processes are killed, and none is paused

	Calm     bool   // no server and no way is broken, only processes
	Only     []Kind // if not empty, the only kinds that are made, beside what is done to processes
	Promised bool   // only faults under which everything is promised

	NoModel  bool                                         // there are too many operations on a key for the search of the model
	Progress func(took time.Duration, p torture.Progress) // told every ten seconds; nil: nobody is
}

// plan is what is done to the processes.
func (o Options) plan() *torture.Plan {
	return torture.NewPlan(torture.Options{
		Seed: o.Seed, Time: o.Time, TTL: o.TTL, Processes: o.Processes, Keys: o.Keys, Rate: float64(cmp.Or(o.Rate, 300)),
		Rest: o.Rest, Spare: o.Spare, Slay: o.Slay,
	})
}

// A Node is a server.
type Node struct {
	Server *testenv.Server
	Limit  func(on bool) error // takes its memory away, or gives it back; nil: it cannot
}

// An Env is a system that runs.
type Env struct {
	*System
	Nodes []*Node
	Guard string // the URL of what the locks protect

	// URL makes the URL of the store of the addresses of its nodes, or of proxies before them.
	URL func(addrs []string) string

	tb    testing.TB
	ways  map[string]*way // by process
	wired string          // the process that has a network
	disk  *testenv.Disk   // nil: none

	// A system with replicas has one node in front, and the others behind it.
	replicas []*testenv.RedisServer
}

// A way is how a process reaches the nodes.
type way struct {
	proxies []*testenv.ProxyServer
	network *testenv.Network // nil: by the loopback device
	guard   string           // the URL of what the locks protect, as seen from there
	link    *chaos.Store     // not nil: in this process
}

// lay makes a way for each process. The first has a network, if the machine lets it.
func (e *Env) lay(processes int) {
	e.ways = map[string]*way{}
	if len(e.Nodes) == 0 {
		return
	}
	for i := range processes {
		who := fmt.Sprint("p", i+1)
		w := &way{guard: e.Guard}
		host := "127.0.0.1"
		if i == 0 && e.may("networks", testenv.CanNetwork) {
			w.network = testenv.NewNetwork(e.tb)
			host, e.wired = w.network.Host, who
			if u, err := url.Parse(e.Guard); err == nil && u.Host != "" {
				w.guard = strings.Replace(e.Guard, u.Host, testenv.ProxyAt(e.tb, host, u.Host).Addr, 1)
			}
		}
		for _, n := range e.front() {
			w.proxies = append(w.proxies, testenv.ProxyAt(e.tb, host, n.Server.Addr))
		}
		e.ways[who] = w
	}
}

// may says whether the machine can do something. Where nothing may be missing, it must.
func (e *Env) may(what string, can func() bool) bool {
	if can() || testenv.Required() {
		return true // and if it cannot, what follows fails
	}
	e.tb.Logf("LEFT OUT, NOT TESTED: this machine lets tests make no %s: run them as root", what)
	return false
}

// front are the nodes that clients talk to.
func (e *Env) front() []*Node {
	if e.replicas != nil {
		return e.Nodes[:1]
	}
	return e.Nodes
}

// url is that of the store, for a process, or by the straight way if who is empty.
func (e *Env) url(who string) string {
	var addrs []string
	if w := e.ways[who]; w != nil {
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

// nodes does something to the servers of an event, one after the other.
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

// room makes room on the disk. A server that ended when it could not write is started again, as an operator would.
func (e *Env) room() error {
	err := e.disk.Free()
	for _, n := range e.Nodes {
		// One that is about to end must not be taken for one that goes on.
		time.Sleep(100 * time.Millisecond)
		if !n.Server.Running() {
			n.Server.Restart()
		}
	}
	return err
}
