package torture

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/chaos"
)

// Options set the duration and the load of a run.
type Options struct {
	Seed      uint64        `json:"seed"`
	Time      time.Duration `json:"time"` // how long the clients acquire locks
	TTL       time.Duration `json:"ttl"`
	Clients   int           `json:"clients"`         // in this process, each with its own link
	Processes int           `json:"processes"`       // to be paused and killed
	Keys      int           `json:"keys"`            // at a time
	Rate      float64       `json:"rate"`            // acquires per second, of all clients together
	Recovery  time.Duration `json:"rest,omitempty"`  // how much longer than usual a client has no fault after a fault
	NoKills   bool          `json:"spare,omitempty"` // processes are paused, and none is killed
	NoPauses  bool          `json:"slay,omitempty"`  // processes are killed, and none is paused
}

// MinTime returns the shortest run for a TTL: time for a fault of every kind, and a calm end.
func MinTime(ttl time.Duration) time.Duration { return 6 * ttl }

// A Plan contains the decisions of a seed.
type Plan struct {
	Options
	Faults []Fault         `json:"faults"` // in order of time
	Links  map[string]Link `json:"links"`  // by client
}

// A Fault happens to a client when its time has come and the client holds a lock.
type Fault struct {
	At   time.Duration `json:"at"`
	Who  string        `json:"who"`
	What What          `json:"what"`
	For  time.Duration `json:"for,omitempty"`
}

// What is the kind of a fault.
type What string

// The faults.
const (
	Pause What = "pause" // its process is stopped for longer than the TTL, and continues
	Kill  What = "kill"  // its process is killed; another one replaces it
	Cut   What = "cut"   // its requests do not arrive, and nothing reaches it
)

// A Link describes the link of a client: for each kind of fault the chance that a call meets it.
type Link map[string]float64

// linkFaults are the kinds that are drawn, and their greatest chances. A late or repeated acquire
// may block a key for a TTL without a holder: with more of them, there would be no contention.
var linkFaults = []struct {
	kind chaos.Kind
	most float64
}{
	{chaos.RequestLost, .01}, {chaos.ReplyLost, .01}, {chaos.RequestLate, .01}, {chaos.ReplyLate, .01},
	{chaos.Repeated, .01}, {chaos.Frozen, .003}, {chaos.Unavailable, .01}, {chaos.WakeLost, .2}, {chaos.WakeFalse, .2},
}

// NewPlan returns the plan of a seed.
func NewPlan(o Options) *Plan {
	p := &Plan{Options: o, Links: map[string]Link{}}
	for i := range o.Clients {
		who := fmt.Sprint("c", i+1)
		p.Links[who] = p.link(who)
		p.schedule(who, i, Cut, Cut)
	}
	for i := range o.Processes {
		who := fmt.Sprint("p", i+1)
		p.Links[who] = p.link(who)
		kinds := []What{Pause, Kill}
		switch {
		case o.NoKills:
			kinds = []What{Pause}
		case o.NoPauses:
			kinds = []What{Kill}
		}
		p.schedule(who, i, kinds...)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return p
}

// draws returns a source of randomness that depends only on the seed and a name.
func (p *Plan) draws(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}

func (p *Plan) link(who string) Link {
	rng := p.draws("link of " + who)
	l := Link{}
	for _, f := range linkFaults {
		l[f.kind.String()] = f.most * (.2 + .8*rng.Float64())
	}
	return l
}

// chances returns the link in the form of package chaos.
func (l Link) chances() map[chaos.Kind]float64 {
	out := map[chaos.Kind]float64{}
	for _, f := range linkFaults {
		out[f.kind] = l[f.kind.String()]
	}
	return out
}

// schedule plans the faults of one client: one kind after the other, a few TTLs apart.
func (p *Plan) schedule(who string, first int, kinds ...What) {
	rng := p.draws("faults of " + who)
	between := func(least, most float64) time.Duration {
		return time.Duration((least + (most-least)*rng.Float64()) * float64(p.TTL))
	}
	at := between(.3, 1) + time.Duration(first%4)*p.TTL*2/3 // if all clients had faults at once, there would be no contention
	at += time.Duration(first) * p.Recovery / time.Duration(max(1, p.Clients+p.Processes))
	for n := first; at < p.calm(); n++ {
		f := Fault{At: at, Who: who, What: kinds[n%len(kinds)]}
		if f.What != Kill {
			f.For = between(1.2, 2)
		}
		p.Faults = append(p.Faults, f)
		at += f.For + between(2, 5) + p.Recovery
	}
}

// calm returns when the faults end, so that the run can end well.
func (p *Plan) calm() time.Duration { return max(p.Time-3*p.TTL, p.Time/3) }

// of returns the faults of one client.
func (p *Plan) of(who string) []Fault {
	return slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return f.Who != who })
}

// attemptsPerKey bounds the operations that the model has to order for one key. Its search is not
// linear.
const attemptsPerKey = 250

// round returns how long a set of keys is in use.
func (p *Plan) round() time.Duration {
	return max(4*p.TTL, time.Duration(attemptsPerKey*float64(p.Keys)/p.Rate*float64(time.Second)))
}

// think returns the average pause of a client between two acquires.
func (p *Plan) think() time.Duration {
	clients := perLink * (p.Clients + p.Processes)
	return time.Duration(float64(clients) / p.Rate * float64(time.Second))
}
